/* Authentication: the token, TLS, the users of unix sockets. Runs in: the supervisor and
 * cloched-engine; secrets are read with the rights of their
 * starter, callers are checked without them. */
#include "auth.h"

#include "base/err.h"
#include "base/fd.h"
#include "base/hex.h"
#include "user/token.h"
#include "user/xdg.h"

#include <fcntl.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define TOKEN_RANDOM_BYTES 32
#define TOKEN_MIN 16
#define PEM_BYTES_MAX (256 << 10)

/* -- the token ------------------------------------------------------------------------------------------------ */

static int check_token(const char *token, const char *path, struct cloche_err *e)
{
        if (strlen(token) < TOKEN_MIN)
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the token in %.150s has fewer than %d characters", path,
                               TOKEN_MIN);
        for (const char *at = token; *at; at++)
                if (*at <= ' ' || *at > '~')
                        return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                                       "the token in %.150s must be one line of visible ASCII", path);
        return 0;
}

static int read_token(int fd, const char *path, char *ret, struct cloche_err *e)
{
        struct stat st;
        ssize_t n;

        if (fstat(fd, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)))
                return err_set(e, CLOCHE_E_INVALID_ARGUMENT,
                               "others may read the token in %.150s: its mode must be 0600", path);
        n = read(fd, ret, TOKEN_BYTES_MAX - 1);
        if (n < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "read the token in %.150s", path);
        ret[n] = '\0';
        ret[strcspn(ret, "\r\n")] = '\0';
        return check_token(ret, path, e);
}

static void make_token(char *ret)
{
        unsigned char bytes[TOKEN_RANDOM_BYTES];

        while (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
                ;
        hex_write(ret, bytes, sizeof(bytes));
}

static int write_token(const char *path, char *ret, struct cloche_err *e)
{
        char line[TOKEN_BYTES_MAX + 2];
        _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "make the token file %.150s", path);
        make_token(ret);
        snprintf(line, sizeof(line), "%s\n", ret);
        if (fd_write_full(fd, line, strlen(line)) < 0 || fsync(fd) < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "write the token file %.150s", path);
        log_event(LEVEL_INFO, "token-made", "{s:s}", "file", path);
        return 0;
}

int auth_load_token(struct daemon_options *o, struct cloche_err *e)
{
        char path[4096];
        int fd, r;

        if (o->token_file)
                snprintf(path, sizeof(path), "%s", o->token_file);
        else
                token_default_path(path, sizeof(path));
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (fd < 0 && errno == ENOENT) {
                if (!o->token_file)
                        (void)xdg_make_parents(path); /* opening the file reports the error */
                return write_token(path, o->token, e);
        }
        if (fd < 0)
                return err_os(e, CLOCHE_E_UNREADABLE_FILE, errno, "open the token file %.150s", path);
        r = read_token(fd, path, o->token, e);
        close(fd);
        return r;
}

/* -- TLS ------------------------------------------------------------------------------------------------------ */

static int read_pem(const char *path, char **ret, struct cloche_err *e)
{
        _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        char *text = fd < 0 ? NULL : calloc(1, PEM_BYTES_MAX + 1);
        ssize_t n = text ? read(fd, text, PEM_BYTES_MAX) : -1;

        if (n > 0) {
                *ret = text;
                return 0;
        }
        free(text);
        return err_os(e, CLOCHE_E_UNREADABLE_FILE, n < 0 ? errno : ENODATA, "read %.150s", path);
}

int auth_load_tls(struct daemon_options *o, struct cloche_err *e)
{
        int r = o->tls_key_file ? read_pem(o->tls_certificate_file, &o->tls_certificate, e) : 0;

        return r == 0 && o->tls_key_file ? read_pem(o->tls_key_file, &o->tls_key, e) : r;
}

/* -- comparing tokens ----------------------------------------------------------------------------------------- */

int auth_is_token_text(const struct daemon_options *o, const char *token, size_t size)
{
        return o->token[0] && size == strlen(o->token) && memeql_sec(token, o->token, size);
}

int auth_is_token(const struct daemon_options *o, const json_t *token)
{
        return json_is_string(token) && auth_is_token_text(o, json_string_value(token), json_string_length(token));
}

/* -- the peer of a unix socket -------------------------------------------------------------------------------- */

static int is_among(long id, const long *ids, unsigned count)
{
        for (unsigned i = 0; i < count; i++)
                if (ids[i] == id)
                        return 1;
        return 0;
}

static int has_group(const struct daemon_options *o, int fd, gid_t gid)
{
        gid_t groups[1024];
        socklen_t size = sizeof(groups);

        if (is_among((long)gid, o->gids.ids, o->gids.count))
                return 1;
        if (o->gids.count == 0 || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &size) < 0)
                return 0;
        for (size_t i = 0; i < size / sizeof(groups[0]); i++)
                if (is_among((long)groups[i], o->gids.ids, o->gids.count))
                        return 1;
        return 0;
}

int auth_peer(const struct daemon_options *o, int fd, uid_t own_uid, int64_t *ret_principal, struct cloche_err *e)
{
        struct ucred peer;
        socklen_t size = sizeof(peer);

        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
                return err_os(e, CLOCHE_E_FORBIDDEN, errno, "get the peer's credentials");
        if (peer.uid != 0 && peer.uid != own_uid && !is_among((long)peer.uid, o->uids.ids, o->uids.count) &&
            !has_group(o, fd, peer.gid))
                return err_set(e, CLOCHE_E_FORBIDDEN,
                               "user %u may not use this daemon (cloched --allow-uid permits it)", peer.uid);
        *ret_principal = peer.uid;
        return 0;
}
