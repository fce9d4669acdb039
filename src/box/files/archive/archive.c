/* Runs in: cloche-files, within a box, with its user's rights. Archives come from anyone. */
#include "archive.h"

#include "base/err.h"
#include "base/utf8.h"
#include "box/files/request.h"
#include "box/files/tree/contents.h"

#include <fcntl.h>
#include <langinfo.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define BLOCK_BYTES (64u << 10)

/* Names are UTF-8 everywhere in Cloche, but a static program in an image without locales has no
 * UTF-8 locale. The linker routes libarchive's call here (--wrap=nl_langinfo). Otherwise non-ASCII
 * names from zip archives would be mangled. */
static int name_is_utf8 = 1;

char *__real_nl_langinfo(nl_item item);
char *__wrap_nl_langinfo(nl_item item);

char *__wrap_nl_langinfo(nl_item item)
{
        static char utf8[] = "UTF-8", other[] = "ANSI_X3.4-1968";

        return item != CODESET ? __real_nl_langinfo(item) : name_is_utf8 ? utf8 : other;
}

void archive_name(const char *name)
{
        name_is_utf8 = utf8_is_valid(name, strlen(name));
}

void archive_close(struct archive **archive)
{
        if (*archive)
                archive_free(*archive);
        *archive = NULL;
}

static int fail(struct archive *archive, const char *path, struct cloche_err *e)
{
        const char *text = archive_error_string(archive);

        if (archive_errno(archive) == ENOMEM)
                return request_no_memory(e);
        return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s cannot be read as an archive: %s", path,
                       text ? text : "it is damaged");
}

int archive_open(int fd, const char *path, struct archive **ret, struct cloche_err *e)
{
        _cleanup_archive_ struct archive *archive = archive_read_new();

        if (!archive)
                return request_no_memory(e);
        archive_read_support_format_tar(archive);
        archive_read_support_format_zip_seekable(archive);
        archive_read_support_filter_gzip(archive);
        archive_read_support_filter_zstd(archive);
        archive_read_support_filter_xz(archive);
        archive_read_support_filter_bzip2(archive);
        if (lseek(fd, 0, SEEK_SET) < 0)
                return files_os(e, errno, "read %s", path);
        if (archive_read_open_fd(archive, fd, BLOCK_BYTES) != ARCHIVE_OK)
                return fail(archive, path, e);
        *ret = archive;
        archive = NULL;
        return 0;
}

int archive_open_stream(int fd, struct archive **ret, struct cloche_err *e)
{
        _cleanup_archive_ struct archive *archive = archive_read_new();

        if (!archive)
                return request_no_memory(e);
        archive_read_support_format_tar(archive);
        archive_read_support_filter_zstd(archive);
        if (archive_read_open_fd(archive, fd, BLOCK_BYTES) != ARCHIVE_OK)
                return fail(archive, "what was saved", e);
        *ret = archive;
        archive = NULL;
        return 0;
}

int archive_next(struct archive *archive, const char *path, struct archive_entry **ret_entry, struct cloche_err *e)
{
        int r = archive_read_next_header(archive, ret_entry);

        if (r == ARCHIVE_EOF)
                return 0;
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
                return fail(archive, path, e);
        if (archive_entry_is_encrypted(*ret_entry))
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s is encrypted", path);
        return 1;
}

int archive_piece(struct archive *archive, const char *path, const void **ret_data, size_t *ret_size, int64_t *ret_at,
                  struct cloche_err *e)
{
        la_int64_t at;
        int r = archive_read_data_block(archive, ret_data, ret_size, &at);

        *ret_at = at;
        return r == ARCHIVE_EOF ? 0 : r == ARCHIVE_OK ? 1 : fail(archive, path, e);
}

int archive_check_sum(struct archive *archive, int fd, const char *path, uint64_t bytes_max, struct cloche_err *e)
{
        static char part[BLOCK_BYTES];
        uint64_t bytes = 0;
        gzFile file;
        int fds_get, n;

        if (archive_filter_code(archive, 0) != ARCHIVE_FILTER_GZIP)
                return 0;
        fds_get = lseek(fd, 0, SEEK_SET) < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
        file = fds_get < 0 ? NULL : gzdopen(fds_get, "rb");
        if (!file)
                return files_os(e, errno, "read %s", path);
        while ((n = gzread(file, part, sizeof(part))) > 0 && bytes <= bytes_max)
                bytes += (uint64_t)n;
        if (gzclose(file) != Z_OK || n < 0)
                return err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s cannot be read as an archive: its checksum is wrong", path);
        return n > 0 ? err_set(e, CLOCHE_E_BAD_ARCHIVE, "%s has too much behind its last member", path) : 0;
}

static const struct {
        const char *format, *endings[2];
        int (*set_format)(struct archive *);
        int (*add_filter)(struct archive *);
        int is_zip;
} formats[] = {
        {"tar", {".tar"}, archive_write_set_format_pax_restricted, archive_write_add_filter_none, 0},
        {"tar.gz", {".tar.gz", ".tgz"}, archive_write_set_format_pax_restricted, archive_write_add_filter_gzip, 0},
        {"tar.zst", {".tar.zst", ".tzst"}, archive_write_set_format_pax_restricted, archive_write_add_filter_zstd, 0},
        {"zip", {".zip"}, archive_write_set_format_zip, archive_write_add_filter_none, 1},
};

static int ends_in(const char *name, const char *ending)
{
        size_t size = strlen(name);

        return ending && size > strlen(ending) && strcmp(name + size - strlen(ending), ending) == 0;
}

static int is_format(size_t i, const char *format, const char *name)
{
        return format ? strcmp(format, formats[i].format) == 0
                      : ends_in(name, formats[i].endings[0]) || ends_in(name, formats[i].endings[1]);
}

int archive_begin(int fd, const char *format, const char *name, struct archive **ret, int *ret_is_zip,
                  struct cloche_err *e)
{
        _cleanup_archive_ struct archive *archive = NULL;
        size_t i = 0, count = sizeof(formats) / sizeof(formats[0]);

        while (i < count && !is_format(i, format, name))
                i++;
        if (i == count)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "%s %.80s is no format, expected tar, tar.gz, tar.zst or zip",
                               format ? "\"format\"" : "the ending of", format ? format : name);
        archive = archive_write_new();
        if (!archive)
                return request_no_memory(e);
        if (formats[i].set_format(archive) != ARCHIVE_OK || formats[i].add_filter(archive) != ARCHIVE_OK ||
            archive_write_set_bytes_in_last_block(archive, 1) != ARCHIVE_OK ||
            archive_write_open_fd(archive, fd) != ARCHIVE_OK)
                return err_set(e, CLOCHE_E_RESOURCE, "begin an archive: %s", archive_error_string(archive));
        *ret_is_zip = formats[i].is_zip;
        *ret = archive;
        archive = NULL;
        return 0;
}
