/* COPY and ADD. Runs in: the CLI, as its user; files of images are hostile. */
#include "pack.h"

#include "cli/output/signals.h"
#include "cli/run/image-store.h"

#include "base/err.h"
#include "base/fd.h"
#include "helpers/fs/rules/glob.h"
#include "helpers/image/read/accounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

#define LINKS_MAX 40
#define MATCHES_MAX 10000

struct copying {
        json_t *words;            /* sources, with their variables replaced */
        char *target;             /* absolute; a slash at the end: a directory */
        const struct stage *from; /* NULL: the context */
        struct stage other;       /* of an image that is no stage */
        json_t *paths;            /* entries of the context */
        json_t *documents;        /* here documents: their texts by name */
        char *owner;              /* of --chown, with its variables replaced; NULL: root */
        struct pack pack;
};

/* -- words ------------------------------------------------------------------------------------------------------ */

/* Variables of a here document are replaced, but quotes and backslashes stay: each gets a backslash
 * of its own. */
static int expand_document(struct build *b, const char *text, char **ret)
{
        char *escaped = malloc(2 * strlen(text) + 1), *at = escaped;
        int code;

        if (!escaped)
                return build_no_memory(b);
        for (; *text; text++) {
                if (*text == '"' || *text == '\'' || (*text == '\\' && text[1] != '$'))
                        *at++ = '\\';
                *at++ = *text;
                if (*text == '\\' && text[1] == '$')
                        *at++ = *++text;
        }
        *at = '\0';
        code = build_expand(b, escaped, ret);
        free(escaped);
        return code;
}

/* The next here document of the step. */
static int take_document(struct build *b, const struct docker_step *step, struct copying *c)
{
        const json_t *row = json_array_get(step->documents, json_object_size(c->documents));
        const char *name = sandbox_text(row, "name"), *text = sandbox_text(row, "text");
        char *expanded = NULL;
        int code = 0;

        if (!row || json_object_get(c->documents, name))
                return build_bad(b, "the here document '%.60s' stands here twice", name);
        if (!json_is_true(json_object_get(row, "isRaw")))
                code = expand_document(b, text, &expanded);
        if (code == 0)
                json_object_set_new(c->documents, name, json_string(expanded ? expanded : text));
        free(expanded);
        return code;
}

static int take_words(struct build *b, const struct docker_step *step, struct copying *c)
{
        struct cloche_err e = {0};
        json_t *raw = step->list ? json_incref(step->list) : NULL;
        size_t count;
        int code = 0;

        if (!raw && docker_split(step->text, &raw, &e) < 0)
                return build_fail(b, &e);
        count = json_array_size(raw);
        c->words = json_array();
        c->documents = json_object();
        if (count < 2)
                code = build_bad(b, "expected at least one source and a target");
        for (size_t i = 0; code == 0 && i < count; i++) {
                char *word = NULL;

                code = build_expand(b, json_string_value(json_array_get(raw, i)), &word);
                if (code == 0 && i + 1 < count && docker_is_document(word))
                        code = take_document(b, step, c);
                else if (code == 0 && i + 1 < count)
                        json_array_append_new(c->words, json_string(word));
                else if (code == 0 &&
                         asprintf(&c->target, "%s%s%s", *word == '/' ? "" : build_directory(build_stage(b)),
                                  *word == '/' ? "" : "/", word) < 0)
                        code = build_no_memory(b);
                free(word);
        }
        json_decref(raw);
        if (code)
                return code;
        for (size_t size = strlen(c->target); size > 1 && strcmp(c->target + size - 2, "/.") == 0; size--)
                c->target[size - 1] = '\0'; /* a directory, even if it is not there yet */
        return build_check_place(b, c->target);
}

/* The owner is looked up in the image, once there is a sandbox. */
static int take_flags(struct build *b, const struct docker_step *step, struct copying *c)
{
        const char *owner = docker_flag(step, "chown"), *mode = docker_flag(step, "chmod");
        char *end = NULL, *text = NULL;
        int code = owner ? build_expand(b, owner, &c->owner) : 0;

        c->pack = (struct pack){.build = b, .uid = b->has_root ? 0 : -1, .gid = b->has_root ? 0 : -1, .mode = -1};
        if (code == 0 && c->owner && !b->has_root)
                code = build_bad(b,
                                 "--chown=%.60s needs root: build as root, for an ordinary user's images have one "
                                 "owner",
                                 c->owner);
        if (code || !mode)
                return code;
        code = build_expand(b, mode, &text);
        c->pack.mode = code ? -1 : (int64_t)strtoul(text, &end, 8);
        if (code == 0 && (!*text || strspn(text, "01234567") != strlen(text) || c->pack.mode > 0777))
                code = build_bad(b,
                                 "--chmod=%.60s: expected digits from 0 to 777, such as 755 (a set-user-id bit is in "
                                 "no image)",
                                 text);
        free(text);
        return code;
}

static int find_from(struct build *b, const struct docker_step *step, struct copying *c)
{
        const char *name = docker_flag(step, "from");
        struct cloche_err e = {0};
        json_t *image = NULL;
        char *end = NULL;
        unsigned long number = name ? strtoul(name, &end, 10) : 0;
        int code;

        if (!name)
                return 0;
        for (size_t i = 0; i + 1 < b->stage_count; i++)
                if ((b->stages[i].name && strcasecmp(b->stages[i].name, name) == 0) || (*name && !*end && number == i))
                        c->from = &b->stages[i];
        if (c->from)
                return 0;
        code = image_store_ask(b->request, &b->store, "inspect", json_pack("{s:s}", "name", name), &image, &e);
        if (code)
                return e.code ? build_fail(b, &e) : code;
        code = build_take_image(&c->other, image);
        snprintf(c->other.key, sizeof(c->other.key), "%.64s", code ? "" : c->other.id + strcspn(c->other.id, ":") + 1);
        c->from = &c->other;
        json_decref(image);
        return code;
}

/* -- the context ------------------------------------------------------------------------------------------------ */

static int is_url(const char *word)
{
        return strncmp(word, "http://", 7) == 0 || strncmp(word, "https://", 8) == 0 || strncmp(word, "git@", 4) == 0;
}

/* Find the sources in the context, and hash them. */
static int find_sources(struct build *b, struct copying *c, char ret[BUILD_KEY_SIZE])
{
        struct sha256_ctx hash;
        struct cloche_err e = {0};
        int r = 0;

        sha256_init(&hash);
        c->paths = json_array();
        for (size_t i = 0; r == 0 && i < json_array_size(c->words); i++) {
                const char *word = json_string_value(json_array_get(c->words, i));
                json_t *found = NULL;

                if (is_url(word))
                        return build_bad(b, "a URL is not supported: download '%.100s' by RUN", word);
                r = build_context_find(&b->context, word, &found, &e);
                if (r == 0)
                        json_array_extend(c->paths, found);
                json_decref(found);
        }
        for (size_t i = 0; r == 0 && i < json_array_size(c->paths); i++)
                r = build_context_hash(&b->context, json_string_value(json_array_get(c->paths, i)), &hash, &e);
        build_finish_hash(&hash, ret);
        return r < 0 ? build_fail(b, &e) : 0;
}

/* The target of one file: in the target if that is a directory. */
static int place(struct build *b, const struct copying *c, const char *source, int is_one, char ret[COPY_PATH_BYTES])
{
        const char *slash = strrchr(source, '/'), *name = slash ? slash + 1 : source;
        struct cloche_err e = {0};
        json_t *entry = NULL;
        int is_into = c->target[strlen(c->target) - 1] == '/', r = 0;

        if (!is_into) {
                r = copy_stat(&b->copy, c->target, &entry, &e);
                is_into = entry && strcmp(sandbox_text(entry, "type"), "directory") == 0;
                json_decref(entry);
        }
        if (r == 0 && !is_into && !is_one)
                return build_bad(b, "'%.100s' must end in '/': there are several sources", c->target);
        if (r == 0)
                r = copy_join(ret, is_into ? c->target : "", is_into ? name : c->target, &e);
        return r < 0 ? build_fail(b, &e) : 0;
}

/* The forms that archive.extract reads. */
static int is_archive_name(const char *name)
{
        static const char *const endings[] = {".tar",     ".tar.gz", ".tgz",     ".tar.xz", ".txz",
                                              ".tar.bz2", ".tbz2",   ".tar.zst", ".tzst"};
        size_t size = strlen(name);

        for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
                if (size >= strlen(endings[i]) && strcmp(name + size - strlen(endings[i]), endings[i]) == 0)
                        return 1;
        return 0;
}

/* Cut a path into the directory and the name in it. */
static void split_path(char path[COPY_PATH_BYTES], const char **ret_directory, const char **ret_name)
{
        char *slash = strrchr(path, '/');

        *ret_name = slash + 1;
        *slash = '\0';
        *ret_directory = slash == path ? "/" : path;
}

/* Members of an archive do not go through links of the image. Those at its top, /bin and its
 * relatives, get archives of their own. */
static int send_to_top(struct build *b, struct copying *c, int fd, const char *path)
{
        json_t *names = NULL, *entry = NULL;
        struct cloche_err e = {0};
        const char *name;
        int code = build_context_names(fd, path, &names, &e) < 0 ? build_fail(b, &e) : 0;

        for (size_t i = 0; code == 0 && i < json_array_size(names); i++) {
                char inside[COPY_PATH_BYTES], below[COPY_PATH_BYTES];
                struct stat status;
                int is_link;

                name = json_string_value(json_array_get(names, i));
                snprintf(inside, sizeof(inside), "/%.4000s", name);
                snprintf(below, sizeof(below), "%.3000s%s%.1000s", path, *path ? "/" : "", name);
                if (copy_stat(&b->copy, inside, &entry, &e) < 0) {
                        code = build_fail(b, &e);
                        break;
                }
                is_link = strcmp(sandbox_text(entry, "type"), "symlink") == 0 &&
                          fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
                json_decref(entry);
                code = pack_begin(&c->pack, is_link ? inside : "/");
                if (code == 0)
                        code = pack_entry(&c->pack, fd, name, below, is_link ? "" : name);
        }
        json_decref(names);
        return code;
}

static int send_directory(struct build *b, struct copying *c, int dir_fd, const char *name, const char *path)
{
        char target[COPY_PATH_BYTES];
        _cleanup_fd_ int fd = -EBADF;
        int code;

        snprintf(target, sizeof(target), "%s", c->target);
        for (size_t size = strlen(target); size > 1 && target[size - 1] == '/'; size--)
                target[size - 1] = '\0';
        if (strcmp(target, "/") != 0) {
                code = pack_begin(&c->pack, target);
                if (code == 0)
                        code = pack_entry(&c->pack, dir_fd, name, path, "");
                return code || c->pack.archive ? code : build_make_directory(b, target); /* an empty one */
        }
        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 ? build_bad(b, "cannot read '%.200s': %s", path, strerror(errno)) : send_to_top(b, c, fd, path);
}

static int send_archive(struct build *b, const struct docker_step *step, struct copying *c, int dir_fd,
                        const char *name)
{
        struct pack facts = c->pack;
        int code = pack_finish(&c->pack);

        if (!docker_flag(step, "chown")) /* as tar does: its own owners */
                facts.uid = facts.gid = -1;
        if (code == 0)
                code = cli_copy_entry(&b->copy, dir_fd, name, name, BUILD_ARCHIVE);
        return code ? code : pack_extract(&facts, c->target);
}

/* Begin the archive of the directory that the file goes to. *ret_member lies in target. */
static int begin_member(struct build *b, struct copying *c, const char *source, int is_one,
                        char target[COPY_PATH_BYTES], const char **ret_member)
{
        const char *directory;
        int code = place(b, c, source, is_one, target);

        if (code)
                return code;
        split_path(target, &directory, ret_member);
        return pack_begin(&c->pack, directory);
}

static int send_path(struct build *b, const struct docker_step *step, struct copying *c, const char *path, int is_one)
{
        char target[COPY_PATH_BYTES];
        struct cloche_err e = {0};
        const char *name, *member;
        _cleanup_fd_ int fd = build_context_open_parent(&b->context, path, &name, &e);
        struct stat status;
        int code;

        if (fd < 0)
                return build_fail(b, &e);
        if (fstatat(fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return build_bad(b, "cannot read '%.200s': %s", path, strerror(errno));
        if (S_ISDIR(status.st_mode))
                return send_directory(b, c, fd, name, path);
        if (step->word == DOCKER_ADD && S_ISREG(status.st_mode) && is_archive_name(name))
                return send_archive(b, step, c, fd, name);
        code = begin_member(b, c, path, is_one, target, &member);
        return code ? code : pack_entry(&c->pack, fd, name, path, member);
}

static int send_document(struct build *b, struct copying *c, const char *name, const char *text, int is_one)
{
        char target[COPY_PATH_BYTES];
        const char *member;
        int code = begin_member(b, c, name, is_one, target, &member);

        if (code == 0)
                code = pack_file(&c->pack, member, strlen(text), 0644, b->time >= 0 ? b->time : (json_int_t)time(NULL));
        return code ? code : pack_bytes(&c->pack, text, strlen(text));
}

static int copy_context(struct build *b, const struct docker_step *step, struct copying *c)
{
        const int is_one = json_array_size(c->paths) + json_object_size(c->documents) == 1;
        const char *name;
        json_t *text;
        int code = 0;

        for (size_t i = 0; code == 0 && i < json_array_size(c->paths); i++)
                code = send_path(b, step, c, json_string_value(json_array_get(c->paths, i)), is_one);
        json_object_foreach (c->documents, name, text)
                code = code ? code : send_document(b, c, name, json_string_value(text), is_one);
        return code ? code : pack_finish(&c->pack);
}

/* -- another image ---------------------------------------------------------------------------------------------- */

/* Read a piece of a file of a sandbox. *ret: done by the caller. */
static int read_piece(struct build *b, const char *sandbox, const char *path, uint64_t at, struct daemon_message *ret,
                      const void **ret_data, size_t *ret_size)
{
        struct cloche_err e = {0};
        int r = daemon_call(&b->copy.client, "file.read",
                            json_pack("{s:s, s:s, s:I, s:i}", "sandbox", sandbox, "path", path, "offset",
                                      (json_int_t)at, "limit", COPY_PIECE_BYTES),
                            NULL, 0, ret, &e);

        if (r == 0)
                r = daemon_bytes(ret, json_object_get(ret->body, "content"), "content", ret_data, ret_size, &e);
        if (r == 0 && *ret_size == 0)
                r = err_set(&e, CLOCHE_E_PROTOCOL, "%.200s became shorter", path);
        return copy_is_cancelled() ? SIGNALS_CANCELLED : r < 0 ? build_fail(b, &e) : 0;
}

/* Copy the bytes of a file from one sandbox to the other, in pieces. word: its name, perhaps that
 * of a link. */
static int relay_file(struct build *b, struct copying *c, const char *word, const char *from, const json_t *entry,
                      int is_one)
{
        const uint64_t size = (uint64_t)json_integer_value(json_object_get(entry, "size"));
        char target[COPY_PATH_BYTES];
        const char *member;
        int code = begin_member(b, c, word, is_one, target, &member);

        if (code == 0)
                code = pack_file(&c->pack, member, size,
                                 (unsigned)json_integer_value(json_object_get(entry, "mode")) & 0777,
                                 (json_int_t)time(NULL));
        for (uint64_t at = 0; code == 0 && at < size;) {
                struct daemon_message message = {0};
                const void *data;
                size_t bytes = 0;

                code = read_piece(b, BUILD_OTHER_BOX, from, at, &message, &data, &bytes);
                if (code == 0)
                        code = pack_bytes(&c->pack, data, at + bytes > size ? (size_t)(size - at) : bytes);
                daemon_message_done(&message);
                at += bytes;
        }
        return code;
}

/* Copy the bytes of an archive. */
static int relay_archive(struct build *b)
{
        uint64_t at = 0, total = 1;
        int code = 0;

        while (code == 0 && at < total) {
                struct daemon_message read = {0};
                struct cloche_err e = {0};
                const void *data;
                size_t size = 0;

                code = read_piece(b, BUILD_OTHER_BOX, BUILD_ARCHIVE, at, &read, &data, &size);
                total = (uint64_t)json_integer_value(json_object_get(read.body, "total"));
                if (code == 0 && copy_write_piece(&b->copy, BUILD_ARCHIVE, data, size, at, 0600, &e) < 0)
                        code = build_fail(b, &e);
                daemon_message_done(&read);
                at += size;
        }
        return code;
}

static int relay_directory(struct build *b, struct copying *c, const char *from)
{
        int code = pack_finish(&c->pack);

        if (code == 0)
                code = build_call(b, "archive.create",
                                  json_pack("{s:s, s:s, s:s, s:s}", "sandbox", BUILD_OTHER_BOX, "path", from, "to",
                                            BUILD_ARCHIVE, "format", "tar.zst"),
                                  NULL);
        if (code == 0)
                code = relay_archive(b);
        return code ? code : pack_extract(&c->pack, c->target);
}

/* A source that is a link means the file or directory behind it, as in container engines. */
static int follow_links(struct build *b, char path[COPY_PATH_BYTES], json_t **entry, struct cloche_err *e)
{
        for (int hops = 0; strcmp(sandbox_text(*entry, "type"), "symlink") == 0 && hops < LINKS_MAX; hops++) {
                const char *target = sandbox_text(*entry, "target");
                char next[COPY_PATH_BYTES];
                int is_absolute = *target == '/', r;

                if (snprintf(next, sizeof(next), "%.*s/%s", is_absolute ? 0 : (int)(strrchr(path, '/') - path), path,
                             target + is_absolute) >= (int)sizeof(next))
                        return err_set(e, CLOCHE_E_TOO_LARGE, "the link %.200s leads to a path that is too long", path);
                memcpy(path, next, sizeof(next));
                json_decref(*entry);
                r = copy_stat(&b->copy, path, entry, e);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int find_other(struct build *b, const char *word, char ret_path[COPY_PATH_BYTES], json_t **ret_entry)
{
        const char *sandbox = b->copy.sandbox;
        struct cloche_err e = {0};
        int code = 0;

        snprintf(ret_path, COPY_PATH_BYTES, "/%.4000s", word + strspn(word, "/"));
        b->copy.sandbox = BUILD_OTHER_BOX;
        if (copy_stat(&b->copy, ret_path, ret_entry, &e) < 0 || follow_links(b, ret_path, ret_entry, &e) < 0)
                code = build_fail(b, &e);
        else if (!*ret_entry)
                code = build_bad(b, "the other image has no '%.200s'", ret_path);
        b->copy.sandbox = sandbox;
        return code;
}

/* A page of the names of a directory of the other image. *ret: the answer. */
static int list_page(struct build *b, const char *directory, const json_t *after, json_t **ret)
{
        json_t *params = json_pack("{s:s, s:s, s:b, s:O*}", "sandbox", BUILD_OTHER_BOX, "path",
                                   *directory ? directory : "/", "hidden", 1, "after", after);

        return build_call(b, "file.list", params, ret);
}

static int find_matches(struct build *b, const char *directory, const char *at, json_t *ret);

/* rest: of the pattern, behind the part that the name matches; "": it is the last one. */
static int take_match(struct build *b, const char *directory, const json_t *entry, const char *rest, json_t *ret)
{
        json_t *path = json_sprintf("%s/%s", directory, sandbox_text(entry, "name"));
        int code = 0;

        if (!path || json_array_size(ret) >= MATCHES_MAX)
                code = build_bad(b, "the pattern matches more than %d names of the other image", MATCHES_MAX);
        else if (!*rest)
                json_array_append(ret, path);
        else if (strcmp(sandbox_text(entry, "type"), "directory") == 0)
                code = find_matches(b, json_string_value(path), rest, ret);
        json_decref(path);
        return code;
}

/* Match the pattern's parts from `at` on with the names below the directory. Links on the way
 * are no directories, as in the context. */
static int find_matches(struct build *b, const char *directory, const char *at, json_t *ret)
{
        const size_t size = strcspn(at, "/");
        json_t *page = NULL, *after = NULL, *entry;
        char *pattern = strndup(at, size);
        struct cloche_err e = {0};
        struct glob *glob = NULL;
        int code = !pattern ? build_no_memory(b) : glob_compile(pattern, &glob, &e) < 0 ? build_fail(b, &e) : 0;
        size_t i;

        while (code == 0 && (code = list_page(b, directory, after, &page)) == 0) {
                json_array_foreach (json_object_get(page, "entries"), i, entry) {
                        const char *name = sandbox_text(entry, "name");

                        if (code == 0 && !*name)
                                code = build_bad(b, "a name in '%.200s/' of the other image is not UTF-8", directory);
                        if (code == 0 && glob_matches(glob, name))
                                code = take_match(b, directory, entry, at + size + strspn(at + size, "/"), ret);
                }
                json_decref(after);
                after = json_incref(json_object_get(page, "next"));
                json_decref(page);
                if (!json_is_string(after))
                        break;
        }
        json_decref(after);
        glob_free(glob);
        free(pattern);
        return code;
}

/* The words, with the names that patterns match in their place. */
static int expand_words(struct build *b, const struct copying *c, json_t **ret)
{
        int code = 0;

        *ret = json_array();
        for (size_t i = 0; code == 0 && i < json_array_size(c->words); i++) {
                const char *word = json_string_value(json_array_get(c->words, i));
                const size_t before = json_array_size(*ret);

                if (!strpbrk(word, "*?["))
                        json_array_append(*ret, json_array_get(c->words, i));
                else
                        code = find_matches(b, "", word + strspn(word, "/"), *ret);
                if (code == 0 && json_array_size(*ret) == before)
                        code = build_bad(b, "the other image has no '%.200s'", word);
        }
        return code;
}

static int copy_other(struct build *b, struct copying *c)
{
        json_t *words = NULL;
        int code = build_open_box(b, BUILD_OTHER_BOX, c->from->id, c->from->tree, NULL, BUILD_READS);
        size_t count;

        if (code == 0)
                code = expand_words(b, c, &words);
        count = json_array_size(words);
        for (size_t i = 0; code == 0 && i < count; i++) {
                const char *word = json_string_value(json_array_get(words, i));
                char from[COPY_PATH_BYTES];
                json_t *entry = NULL;

                code = find_other(b, word, from, &entry);
                if (code == 0)
                        code = strcmp(sandbox_text(entry, "type"), "directory") == 0
                                       ? relay_directory(b, c, from)
                                       : relay_file(b, c, word, from, entry, count == 1);
                json_decref(entry);
        }
        if (code == 0)
                code = pack_finish(&c->pack);
        json_decref(words);
        return code ? code : build_call(b, "sandbox.delete", json_pack("{s:s}", "sandbox", BUILD_OTHER_BOX), NULL);
}

/* -- owners ----------------------------------------------------------------------------------------------------- */

/* Read a file of accounts of the sandbox. 0 bytes: there is none. */
static int read_accounts(struct build *b, const char *path, struct daemon_message *ret, const char **ret_text,
                         size_t *ret_size)
{
        struct cloche_err e = {0};
        const void *data = NULL;
        json_t *entry = NULL;
        int code = copy_stat(&b->copy, path, &entry, &e) < 0 ? build_fail(b, &e) : 0;
        const json_int_t size = json_integer_value(json_object_get(entry, "size"));

        json_decref(entry);
        *ret_size = 0;
        if (code == 0 && size > 0 && size <= ACCOUNTS_BYTES_MAX)
                code = read_piece(b, BUILD_BOX, path, 0, ret, &data, ret_size);
        *ret_text = data;
        return code;
}

static int find_user(struct build *b, const char *name, struct pack *ret)
{
        struct daemon_message message = {0};
        struct account account;
        uint32_t number = 0;
        const char *text;
        size_t size;
        int code = read_accounts(b, "/etc/passwd", &message, &text, &size);

        if (code == 0 && account_find(text, size, name, 0, &account)) {
                ret->uid = account.uid;
                ret->gid = account.gid;
        } else if (code == 0 && account_read_id(name, strlen(name), &number)) {
                ret->uid = ret->gid = number;
        } else if (code == 0) {
                code = build_bad(b, "--chown: /etc/passwd of the image has no user '%.60s'", name);
        }
        daemon_message_done(&message);
        return code;
}

static int find_group(struct build *b, const char *name, struct pack *ret)
{
        struct daemon_message message = {0};
        uint32_t number = 0;
        const char *text;
        size_t size;
        int code = read_accounts(b, "/etc/group", &message, &text, &size);

        if (code == 0 && !account_find_group(text, size, name, &number) &&
            !account_read_id(name, strlen(name), &number))
                code = build_bad(b, "--chown: /etc/group of the image has no group '%.60s'", name);
        ret->gid = number;
        daemon_message_done(&message);
        return code;
}

static int find_owner(struct build *b, struct copying *c)
{
        char *group = c->owner ? strchr(c->owner, ':') : NULL;
        int code = 0;

        if (group)
                *group++ = '\0';
        if (c->owner && *c->owner)
                code = find_user(b, c->owner, &c->pack);
        return code == 0 && group && *group ? find_group(b, group, &c->pack) : code;
}

/* -- whole ------------------------------------------------------------------------------------------------------ */

static int copy_into_box(struct build *b, const struct docker_step *step, struct copying *c)
{
        const struct stage *stage = build_stage(b);
        int code = build_open_box(b, BUILD_BOX, stage->id, stage->tree, build_env(stage), BUILD_WRITES);

        b->copy.sandbox = BUILD_BOX;
        b->copy.code = 0;
        if (code)
                return code;
        code = find_owner(b, c);
        if (code == 0)
                code = c->from ? copy_other(b, c) : copy_context(b, step, c);
        pack_done(&c->pack);
        if (copy_is_cancelled())
                code = SIGNALS_CANCELLED;
        return code;
}

int build_copy(struct build *b, const struct docker_step *step)
{
        struct copying c = {0};
        char key[BUILD_KEY_SIZE], files[BUILD_KEY_SIZE] = "";
        char *sources;
        int code = take_words(b, step, &c), found;

        if (code == 0)
                code = take_flags(b, step, &c);
        if (code == 0)
                code = find_from(b, step, &c);
        if (code == 0 && c.from)
                memcpy(files, c.from->key, sizeof(files));
        else if (code == 0)
                code = find_sources(b, &c, files);
        sources = code == 0 ? json_dumps(c.words, JSON_COMPACT) : NULL;
        if (code == 0) {
                json_t *text = json_sprintf("%s %s %s", sources ? sources : "", c.target, c.owner ? c.owner : "");

                code = build_make_key(b, step, json_string_value(text), files, key);
                json_decref(text);
        }
        found = code == 0 ? build_take_result(b, key) : 0;
        if (found < 0)
                code = -found;
        if (code == 0 && !found) {
                build_show(b, "");
                code = copy_into_box(b, step, &c);
                if (code == 0)
                        code = build_commit(b, step, key);
        }
        free(sources);
        free(c.target);
        free(c.owner);
        free(c.other.id);
        free(c.other.tree);
        json_decref(c.words);
        json_decref(c.paths);
        json_decref(c.documents);
        return code;
}
