/* Whole files of envd: GET and POST of /files. Uploads are written in place, piece by piece,
 * so that a watcher sees the file itself. Runs in: cloched-engine, on its loop, with the
 * rights of the daemon's user. */
#include "sandbox.h"

#include "base/err.h"
#include "daemon/http/form.h"
#include "daemon/http/operation.h"
#include "daemon/web/sandbox-raw.h"
#include "wire/json.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define HELD_BYTES (4u << 20) /* of a body that waits for the sandbox */
#define PIECE_BYTES (1u << 20)
#define RENEWED_PIECES 16
#define ANSWER_BYTES (8u << 20)      /* for the paths and metadata of the files of an upload */
#define GZIP_WINDOW (16 + MAX_WBITS) /* of inflateInit2: gzip alone */

/* -- the sandbox of a signed URL --------------------------------------------------------------------------------- */

static void on_listed(struct e2b_request *q, const struct door_reply *reply)
{
        const json_t *all = json_object_get(reply->result, "sandboxes");
        void (*then)(struct e2b_request * q) = q->go_on;
        const char *operation = strcmp(q->route->verb, "GET") == 0 ? "read" : "write";

        for (size_t i = 0; i < json_array_size(all); i++) {
                q->door.sandbox = strdup(e2b_text(json_array_get(all, i), "sandbox"));
                if (q->door.sandbox && e2b_is_signed(q, operation)) {
                        e2b_with_sandbox(q, then);
                        return;
                }
                free(q->door.sandbox);
                q->door.sandbox = NULL;
        }
        e2b_refuse(q, 401, "unauthenticated", "the signature is of no sandbox, or expired");
}

/* The URL holds no id, so the tokens of all sandboxes are tried: a hash each. */
static void with_signed(struct e2b_request *q, void (*then)(struct e2b_request *q))
{
        if (e2b_is_of_volume(q)) {
                e2b_with_volume(q, then);
                return;
        }
        if (q->door.sandbox) {
                e2b_with_sandbox(q, then);
                return;
        }
        q->go_on = then;
        e2b_call(q, "sandbox.list", json_object(), NULL, on_listed);
}

/* -- download ---------------------------------------------------------------------------------------------------- */

static json_t *query_path(const struct e2b_request *q)
{
        char *path = e2b_query(q, "path");
        json_t *absolute = e2b_is_of_volume(q) ? e2b_volume_path(path) : e2b_path(path);

        free(path);
        return absolute;
}

static void transfer(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *path = query_path(q);
        json_t *params = json_pack("{s:s, s:o}", "sandbox", q->door.sandbox, "path", path);
        struct cloche_err e = {0};

        (void)reply;
        if (!sandboxes_has(q->door.daemon->sandboxes, q->door.principal, q->door.sandbox))
                e2b_gone(q); /* deleted meanwhile: the transfer would make it anew */
        else if (sandbox_raw_begin(q->door.daemon, q->request, q->door.principal, operation_at(OPERATION_RAW_GET),
                                   params, &e) < 0)
                e2b_fail(q, &(struct door_reply){.e = &e});
        else
                e2b_request_free(q); /* the request belongs to the transfer now */
        json_decref(params);
}

static void on_known(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *path = query_path(q);

        if (strcmp(e2b_text(reply->result, "type"), "directory") == 0)
                e2b_refuse(q, 400, "invalid_argument", "path '%.500s' is a directory", json_string_value(path));
        else if (e2b_is_of_volume(q))
                e2b_volume_renew(q, json_integer_value(json_object_get(reply->result, "size")), transfer);
        else
                transfer(q, reply);
        json_decref(path);
}

static void on_unknown(struct e2b_request *q, const struct door_reply *reply)
{
        json_t *path = query_path(q);

        if (reply->e->code == CLOCHE_E_FILE_NOT_FOUND)
                e2b_refuse(q, 404, "not_found", "path '%.500s' does not exist", json_string_value(path));
        else
                e2b_fail(q, reply);
        json_decref(path);
}

static void download(struct e2b_request *q)
{
        q->fail = on_unknown;
        e2b_call(q, "file.stat", json_pack("{s:o}", "path", query_path(q)), NULL, on_known);
}

void e2b_on_download(struct e2b_request *q)
{
        with_signed(q, download);
}

/* -- upload ------------------------------------------------------------------------------------------------------ */

struct piece {
        TAILQ_ENTRY(piece) link;
        json_t *path;
        int begins;
        struct buf bytes;
};

struct upload {
        struct e2b_request *q;
        struct http_form *form; /* NULL: the body is the file */
        TAILQ_HEAD(pieces, piece) pieces;
        size_t waiting_bytes, written_count; /* the latter of pieces */
        json_t *path;                        /* of the part under way */
        char *name;                          /* the file name that this part states; NULL: none */
        json_t *files;                       /* the answer */
        json_t *metadata;
        json_int_t mode; /* negative: not stated */
        uint64_t parts, answer_bytes;
        size_t metadata_bytes;
        z_stream inflater;
        int is_gzip, is_inflated; /* is_inflated: the compressed body has ended */
        int is_empty_part, is_ready, is_whole, is_bad;
};

static void piece_free(struct piece *piece)
{
        json_decref(piece->path);
        buf_done(&piece->bytes);
        free(piece);
}

static void upload_done(void *state)
{
        struct upload *u = state;
        struct piece *piece;

        while ((piece = TAILQ_FIRST(&u->pieces))) {
                TAILQ_REMOVE(&u->pieces, piece, link);
                piece_free(piece);
        }
        (void)http_form_free(u->form);
        if (u->is_gzip)
                (void)inflateEnd(&u->inflater);
        json_decref(u->path);
        json_decref(u->files);
        json_decref(u->metadata);
        free(u->name);
        free(u);
}

static void go_on(struct upload *u);

static void on_renewed(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        go_on(q->state);
}

static void on_written(struct e2b_request *q, const struct door_reply *reply)
{
        struct upload *u = q->state;
        struct piece *piece = TAILQ_FIRST(&u->pieces);
        const char *path = json_string_value(piece->path), *slash = path ? strrchr(path, '/') : NULL;

        (void)reply;
        if (piece->begins)
                json_array_append_new(u->files, json_pack("{s:s, s:s, s:s, s:O*}", "path", path ? path : "", "name",
                                                          slash ? slash + 1 : "", "type", "file", "metadata",
                                                          json_object_size(u->metadata) > 0 ? u->metadata : NULL));
        u->waiting_bytes -= piece->bytes.size;
        TAILQ_REMOVE(&u->pieces, piece, link);
        piece_free(piece);
        u->written_count++;
        if (e2b_is_of_volume(q) && u->written_count % RENEWED_PIECES == 0)
                e2b_volume_renew(q, RENEWED_PIECES * PIECE_BYTES, on_renewed);
        else
                go_on(u);
}

static void on_not_written(struct e2b_request *q, const struct door_reply *reply)
{
        const struct piece *piece = TAILQ_FIRST(&((struct upload *)q->state)->pieces);

        if (reply->e->code == CLOCHE_E_FILE_KIND)
                e2b_refuse(q, 400, "invalid_argument", "path is a directory: %.500s", json_string_value(piece->path));
        else
                e2b_fail(q, reply);
}

static void write_piece(struct upload *u, const struct piece *piece)
{
        json_t *params = json_pack("{s:O, s:o}", "path", piece->path, "content", json_attachment(0, piece->bytes.size));

        if (!piece->begins)
                json_object_set_new(params, "append", json_true());
        else if (u->mode >= 0)
                json_object_set_new(params, "mode", json_integer(u->mode));
        u->q->fail = on_not_written;
        e2b_call(u->q, "file.write", params, &piece->bytes, on_written);
}

static json_t *change_metadata(struct e2b_request *q, const json_t *described)
{
        const struct upload *u = q->state;
        json_t *all = e2b_metadata(described);

        for (size_t i = 0; i < json_array_size(u->files); i++) {
                const char *path = e2b_text(json_array_get(u->files, i), "path");

                if (json_object_size(u->metadata) > 0)
                        json_object_set(all, path, u->metadata);
                else
                        (void)json_object_del(all, path);
        }
        return e2b_metadata_put(q, described, all);
}

static void on_whole_written(struct e2b_request *q, const struct door_reply *reply)
{
        (void)reply;
        if (e2b_is_of_volume(q))
                e2b_volume_entry(q);
        else
                e2b_answer(q, 200, json_incref(((struct upload *)q->state)->files));
}

/* The files have metadata now, or an earlier one of them had. */
static int has_metadata(const struct upload *u)
{
        int is_there = json_object_size(u->metadata) > 0;

        for (size_t i = 0; i < json_array_size(u->files); i++)
                is_there |= e2b_has_metadata(u->q->described, e2b_text(json_array_get(u->files, i), "path"));
        return is_there;
}

static void go_on(struct upload *u)
{
        const struct piece *piece = TAILQ_FIRST(&u->pieces);

        if (u->is_bad)
                return;
        http_body_hold(u->q->request, u->waiting_bytes >= HELD_BYTES);
        if (!u->is_ready || u->q->door.open)
                return;
        if (piece)
                write_piece(u, piece);
        else if (u->is_whole && has_metadata(u))
                e2b_labels_change(u->q, change_metadata, on_whole_written);
        else if (u->is_whole)
                on_whole_written(u->q, NULL);
}

static void refuse_body(struct upload *u, const char *why)
{
        if (!u->is_bad)
                e2b_refuse(u->q, 400, "invalid_argument", "%s", why);
        u->is_bad = 1;
}

/* Append to the last piece while that has room, else make another one. */
static int add(struct upload *u, int begins, const void *bytes, size_t size)
{
        struct piece *last = TAILQ_LAST(&u->pieces, pieces);
        int is_under_way = last && last == TAILQ_FIRST(&u->pieces) && u->q->door.open != NULL;

        if (begins || !last || is_under_way || last->bytes.size + size > PIECE_BYTES) {
                last = calloc(1, sizeof(*last));
                if (!last)
                        return -ENOMEM;
                last->path = json_incref(u->path);
                last->begins = begins;
                last->bytes = (struct buf)BUF_INIT(SIZE_MAX / 2);
                TAILQ_INSERT_TAIL(&u->pieces, last, link);
        }
        u->waiting_bytes += size;
        return buf_append(&last->bytes, bytes, size);
}

/* A part has the file name of the client's Blob, or the path of the query. */
static int on_piece(void *data, const char *name, const char *file_name, uint64_t offset, const char *bytes,
                    size_t size)
{
        struct upload *u = data;
        char *path;
        int begins;

        if (strcmp(name, "file") != 0)
                return 0;
        /* libmicrohttpd may begin a part with an empty piece. */
        begins = offset == 0 && !(u->is_empty_part && strcmp(u->name ? u->name : "", file_name ? file_name : "") == 0);
        u->is_empty_part = offset == 0 && size == 0;
        if (begins) {
                free(u->name);
                u->name = file_name ? strdup(file_name) : NULL;
                path = e2b_query(u->q, "path");
                json_decref(u->path);
                u->path = e2b_path(path && *path ? path : file_name);
                free(path);
                u->parts++;
                if (!u->path) {
                        refuse_body(u, "the file name of a part is not UTF-8");
                        return 1;
                }
                /* A few bytes of a compressed body are a part, which has a path and metadata. */
                u->answer_bytes += json_string_length(u->path) + u->metadata_bytes;
                if (u->answer_bytes > ANSWER_BYTES) {
                        refuse_body(u, "the paths and metadata of the files are too large for one request");
                        return 1;
                }
        }
        return add(u, begins, bytes, size) < 0;
}

/* The file, or a form with files. Negative: the body is malformed. */
static int take(struct upload *u, const void *bytes, size_t size)
{
        return u->form ? http_form_feed(u->form, bytes, size) : add(u, u->parts++ == 0, bytes, size);
}

/* A piece of the body is small (server.c), and so bounds the memory for its contents. */
static int take_compressed(struct upload *u, const void *bytes, size_t size)
{
        char plain[16 << 10];
        int r = 0;

        u->inflater.next_in = (Bytef *)bytes;
        u->inflater.avail_in = (uInt)size;
        do {
                u->inflater.next_out = (Bytef *)plain;
                u->inflater.avail_out = sizeof(plain);
                switch (u->is_inflated ? Z_DATA_ERROR : inflate(&u->inflater, Z_NO_FLUSH)) {
                case Z_STREAM_END:
                        u->is_inflated = 1;
                        break;
                case Z_OK:
                case Z_BUF_ERROR: /* nothing was left to do */
                        break;
                default:
                        return -1;
                }
                if (u->inflater.avail_out < sizeof(plain))
                        r = take(u, plain, sizeof(plain) - u->inflater.avail_out);
        } while (r >= 0 && (u->inflater.avail_in > 0 || (u->inflater.avail_out == 0 && !u->is_inflated)));
        return r;
}

static void on_body(struct e2b_request *q, const void *bytes, size_t size)
{
        struct upload *u = q->state;

        q->door.daemon->stats.bytes_read += size;
        if (u->is_bad)
                return;
        if ((u->is_gzip ? take_compressed(u, bytes, size) : take(u, bytes, size)) < 0)
                refuse_body(u, "the body is no multipart/form-data with parts named \"file\", or not as "
                               "Content-Encoding says");
        else
                go_on(u);
}

static void on_whole(struct e2b_request *q)
{
        struct upload *u = q->state;

        if (u->is_gzip && !u->is_inflated)
                refuse_body(u, "the compressed body is not complete");
        if (!u->form && u->parts == 0 && !u->is_bad) /* an empty file */
                (void)add(u, 1, "", 0);
        u->is_whole = 1;
        go_on(u);
}

static void upload(struct e2b_request *q)
{
        struct upload *u = q->state;

        u->is_ready = 1;
        go_on(u);
}

static void on_earlier(struct e2b_request *q, const struct door_reply *reply)
{
        struct upload *u = q->state;

        if (e2b_volume_flag(q, "force") || strcmp(e2b_text(reply->result, "type"), "directory") == 0) {
                upload(q);
                return;
        }
        u->is_bad = 1;
        e2b_refuse(q, 409, "already_exists", "there is a file at this path already: force overwrites it");
}

static void on_no_earlier(struct e2b_request *q, const struct door_reply *reply)
{
        struct upload *u = q->state;

        if (reply->e->code == CLOCHE_E_FILE_NOT_FOUND) {
                upload(q);
                return;
        }
        u->is_bad = 1;
        e2b_fail(q, reply);
}

/* Files of volumes are not overwritten by accident. */
static void look_for_earlier(struct e2b_request *q)
{
        struct upload *u = q->state;

        u->mode = e2b_volume_mode(q);
        u->is_bad = u->mode == -2;
        if (u->is_bad)
                return;
        q->fail = on_no_earlier;
        e2b_call(q, "file.stat", json_pack("{s:O}", "path", u->path), NULL, on_earlier);
}

static int is_of_type(const struct e2b_request *q, const char *type)
{
        const char *text = http_request_header(q->request, "Content-Type");

        return text && strncasecmp(text, type, strlen(type)) == 0;
}

void e2b_on_upload(struct e2b_request *q)
{
        static const struct http_form_handler handler = {.on_piece = on_piece};
        const char *encoding = http_request_header(q->request, "Content-Encoding");
        int is_form = is_of_type(q, "multipart/form-data");
        struct upload *u;

        int is_gzip = encoding && strcasecmp(encoding, "gzip") == 0;
        json_t *metadata;

        if (encoding && !is_gzip && strcasecmp(encoding, "identity") != 0) {
                e2b_refuse(q, 400, "invalid_argument",
                           "Content-Encoding '%.40s' is not supported: send the file as it is", encoding);
                return;
        }
        if (!is_form && !is_of_type(q, "application/octet-stream")) {
                e2b_refuse(q, 400, "invalid_argument",
                           "Content-Type must be multipart/form-data or application/octet-stream");
                return;
        }
        metadata = e2b_metadata_of_headers(q);
        if (!metadata)
                return;
        u = calloc(1, sizeof(*u));
        if (!u) {
                json_decref(metadata);
                e2b_refuse(q, 500, "internal", "out of memory");
                return;
        }
        TAILQ_INIT(&u->pieces);
        u->metadata = metadata;
        u->metadata_bytes = json_dumpb(metadata, NULL, 0, JSON_COMPACT);
        u->q = q;
        u->files = json_array();
        u->path = query_path(q);
        u->mode = -1;
        u->is_gzip = is_gzip && inflateInit2(&u->inflater, GZIP_WINDOW) == Z_OK;
        q->state = u;
        q->state_done = upload_done;
        q->on_body = on_body;
        q->on_whole = on_whole;
        if (is_gzip != u->is_gzip)
                e2b_refuse(q, 500, "internal", "out of memory");
        else if (is_form && !(u->form = http_form_new(q->request, &handler, u)))
                e2b_refuse(q, 400, "invalid_argument", "Content-Type multipart/form-data has no boundary");
        else
                with_signed(q, e2b_is_of_volume(q) ? look_for_earlier : upload);
}
