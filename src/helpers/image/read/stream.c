/* Runs in: cloche-image, as its user, confined to the store and the source. */
#include "stream.h"

#include "base/err.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

int image_stream_failed(struct archive *archive, const char *name, struct cloche_err *e)
{
        const char *text = archive_error_string(archive);
        int number = archive_errno(archive);

        if (number == ENOMEM)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        if (number == EIO)
                return err_set(e, CLOCHE_E_UNREADABLE_FILE, "%.60s: %s", name, text ? text : "it cannot be read");
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.60s cannot be read as an archive: %s", name,
                       text ? text : "it is damaged");
}

static la_ssize_t read_given(struct archive *archive, void *data, const void **ret)
{
        struct image_stream *s = data;
        uint64_t left = s->size - s->bytes;
        size_t wanted = left < sizeof(s->part) ? (size_t)left : sizeof(s->part);
        ssize_t n;

        do {
                n = s->at < 0 ? read(s->fd, s->part, wanted) : pread(s->fd, s->part, wanted, s->at);
        } while (n < 0 && errno == EINTR);
        if (n < 0) {
                archive_set_error(archive, EIO, "%s", strerror(errno));
                return -1;
        }
        sha256_update(&s->hash, (size_t)n, (const uint8_t *)s->part);
        s->bytes += (uint64_t)n;
        s->at += s->at < 0 ? 0 : n;
        *ret = s->part;
        return n;
}

/* Have bytes of a member to inflate. 1; 0: the end; -1. */
static int fill_inflater(struct archive *archive, struct image_stream *s)
{
        const void *data;
        la_ssize_t n;

        if (s->inflater.avail_in == 0) {
                n = s->unread ? (la_ssize_t)s->unread : read_given(archive, s, &data);
                if (n < 0)
                        return -1;
                s->unread = 0;
                s->inflater.next_in = (Bytef *)s->part;
                s->inflater.avail_in = (uInt)n;
        }
        if (s->inflater.avail_in == 0 && s->is_in_member) {
                archive_set_error(archive, EINVAL, "it is cut");
                return -1;
        }
        if (s->is_in_member)
                return 1;
        /* Another member may follow, or padding. */
        if (s->inflater.avail_in == 0 || *s->inflater.next_in != 0x1f)
                return 0;
        s->is_in_member = inflateReset(&s->inflater) == Z_OK;
        return s->is_in_member ? 1 : -1;
}

static la_ssize_t read_inflated(struct archive *archive, struct image_stream *s, const void **ret)
{
        int r;

        *ret = s->inflated;
        s->inflater.next_out = (Bytef *)s->inflated;
        s->inflater.avail_out = sizeof(s->inflated);
        while (s->inflater.avail_out == sizeof(s->inflated)) {
                r = fill_inflater(archive, s);
                if (r <= 0)
                        return r;
                r = inflate(&s->inflater, Z_NO_FLUSH);
                s->is_in_member = r != Z_STREAM_END;
                if (r == Z_MEM_ERROR || (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)) {
                        archive_set_error(archive, r == Z_MEM_ERROR ? ENOMEM : EINVAL, "%s",
                                          s->inflater.msg ? s->inflater.msg : "it is damaged");
                        return -1;
                }
        }
        return (la_ssize_t)(sizeof(s->inflated) - s->inflater.avail_out);
}

static la_ssize_t read_source(struct archive *archive, void *data, const void **ret)
{
        struct image_stream *s = data;
        size_t unread = s->unread;

        if (s->is_gzip)
                return read_inflated(archive, s, ret);
        if (!unread)
                return read_given(archive, s, ret);
        s->unread = 0;
        *ret = s->part;
        return (la_ssize_t)unread;
}

static la_ssize_t read_plain(struct archive *archive, void *data, const void **ret)
{
        struct image_stream *s = data;
        la_int64_t at;
        size_t size = 0;
        int r = archive_read_data_block(s->filter, ret, &size, &at);

        if (r == ARCHIVE_EOF)
                return 0;
        if (r != ARCHIVE_OK) {
                archive_set_error(archive, archive_errno(s->filter), "%s",
                                  archive_error_string(s->filter) ? archive_error_string(s->filter) : "it is damaged");
                return -1;
        }
        s->plain_bytes += size;
        if (s->plain_bytes > image_stream_bytes_max(s->bytes)) {
                archive_set_error(archive, EFBIG, "it unpacks to more than %d times its own size beyond %llu MiB",
                                  STREAM_RATIO_MAX, (unsigned long long)(STREAM_FREE_BYTES >> 20));
                return -1;
        }
        if (!s->is_plain)
                sha256_update(&s->plain_hash, size, *ret);
        return (la_ssize_t)size;
}

static int open_filter(struct image_stream *s, const char *name, struct cloche_err *e)
{
        struct archive_entry *entry;
        const void *first;
        la_ssize_t n;
        int r;

        s->filter = archive_read_new();
        if (!s->filter)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        archive_read_support_format_raw(s->filter);
        archive_read_support_format_empty(s->filter);
        archive_read_support_filter_gzip(s->filter); /* within another compression only: it is refused below */
        archive_read_support_filter_zstd(s->filter);
        archive_read_support_filter_xz(s->filter);
        archive_read_support_filter_bzip2(s->filter);
        n = read_given(s->filter, s, &first);
        if (n < 0)
                return image_stream_failed(s->filter, name, e);
        s->unread = (size_t)n;
        s->is_gzip = n >= 2 && s->part[0] == 0x1f && (unsigned char)s->part[1] == 0x8b;
        if (s->is_gzip && inflateInit2(&s->inflater, 15 + 16) != Z_OK) /* 16: gzip alone */
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        s->is_in_member = s->is_gzip;
        if (archive_read_open(s->filter, s, NULL, read_source, NULL) != ARCHIVE_OK)
                return image_stream_failed(s->filter, name, e);
        r = archive_read_next_header(s->filter, &entry);
        if (r == ARCHIVE_EOF)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.60s is empty", name);
        if (r != ARCHIVE_OK)
                return image_stream_failed(s->filter, name, e);
        s->is_plain = !s->is_gzip && archive_filter_code(s->filter, 0) == ARCHIVE_FILTER_NONE;
        /* The last of them reads the file. Layers between others could grow without limit
         * unseen. */
        if (archive_filter_count(s->filter) > (s->is_gzip ? 1 : 2))
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%.60s is compressed more than once", name);
        return 0;
}

int image_stream_open(struct image_stream *ret, int fd, int64_t at, uint64_t size, const char *name,
                      struct cloche_err *e)
{
        int r;

        ret->fd = fd;
        ret->at = at;
        ret->size = size;
        ret->bytes = ret->plain_bytes = 0;
        ret->tar = NULL;
        ret->unread = 0;
        ret->is_gzip = false;
        memset(&ret->inflater, 0, sizeof(ret->inflater));
        sha256_init(&ret->hash);
        sha256_init(&ret->plain_hash);
        r = open_filter(ret, name, e);
        if (r < 0)
                return r;
        ret->tar = archive_read_new();
        if (!ret->tar)
                return err_set(e, CLOCHE_E_RESOURCE, "out of memory");
        archive_read_support_format_tar(ret->tar);
        if (archive_read_open(ret->tar, ret, NULL, read_plain, NULL) != ARCHIVE_OK)
                return image_stream_failed(ret->tar, name, e);
        return 0;
}

int image_stream_next(struct archive *archive, const char *name, struct archive_entry **ret, struct cloche_err *e)
{
        int r = archive_read_next_header(archive, ret);

        if (r == ARCHIVE_EOF)
                return 0;
        return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 1 : image_stream_failed(archive, name, e);
}

int image_stream_finish(struct image_stream *stream, const char *name, struct image_stream_digests *ret,
                        struct cloche_err *e)
{
        const void *data;
        la_ssize_t n;

        while ((n = read_plain(stream->filter, stream, &data)) > 0)
                ;
        while (n == 0 && (n = read_given(stream->filter, stream, &data)) > 0)
                n = 0; /* bytes after the end of the compressed ones */
        if (n < 0)
                return image_stream_failed(stream->filter, name, e);
        hash_finish(&stream->hash, ret->given);
        if (stream->is_plain)
                memcpy(ret->plain, ret->given, HASH_TEXT_SIZE);
        else
                hash_finish(&stream->plain_hash, ret->plain);
        ret->bytes = stream->bytes;
        return 0;
}

void image_stream_close(struct image_stream *stream)
{
        if (stream->tar)
                archive_read_free(stream->tar);
        if (stream->filter)
                archive_read_free(stream->filter);
        stream->tar = stream->filter = NULL;
        if (stream->is_gzip)
                inflateEnd(&stream->inflater);
}
