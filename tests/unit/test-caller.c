/* The keeper reads from a socket, or from its command line, the user whose rights decide.
 * daemon/mounts-rights.py tests the effect of these rights. */
#include "keeper/caller.h"
#include "tap.h"

#include "base/fd.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static void test_sockets(void)
{
        static struct keeper_caller caller;
        struct cloche_err e = {0};
        int pair[2], pipes[2], tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && pipe(pipes) == 0 && tcp_fd >= 0,
              "descriptors are made");
        CHECK(keeper_caller_of_socket(pair[0], &caller, &e) == (geteuid() != 0), "root is no caller, others are: %s",
              e.msg);
        CHECK(geteuid() == 0 || (caller.uid == geteuid() && caller.gid == getegid()), "they are who they are");
        CHECK(keeper_caller_of_socket(tcp_fd, &caller, &e) == -CLOCHE_E_FORBIDDEN, "nobody is at the end of TCP: %s",
              e.msg);
        CHECK(keeper_caller_of_socket(pipes[0], &caller, &e) == -CLOCHE_E_FORBIDDEN, "nor of a pipe: %s", e.msg);
        for (int i = 0; i < 2; i++) {
                close(pair[i]);
                close(pipes[i]);
        }
        pair[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(keeper_caller_of_socket(pair[0], &caller, &e) == -CLOCHE_E_FORBIDDEN,
              "nor of a socket that is not connected: %s", e.msg);
        close(pair[0]);
        close(tcp_fd);
}

static void root_done(struct keeper_root *root)
{
        fd_close(&root->fd);
        for (size_t i = 0; i < root->above_count; i++)
                close(root->above_fds[i]);
        free(root->above_fds);
        free(root->named);
}

static void test_roots(void)
{
        static const char *const bad[] = {"",
                                          "usr",
                                          "1:/usr",
                                          "1,2",
                                          "1,2:",
                                          "1,2:usr",
                                          "1,2,:/usr",
                                          ",2:/usr",
                                          "1,:/usr",
                                          "4294967295,1:/usr",
                                          "1,4294967295:/usr",
                                          "1,2;3:/usr",
                                          "/nowhere/at/all",
                                          "1,2:/nowhere"};
        struct keeper_root root;
        struct cloche_err e = {0};

        CHECK(caller_open_root("/", &root, &e) == 0 && root.is_slash && root.above_count == 0 && !root.named,
              "/ is a root: %s", e.msg);
        root_done(&root);
        CHECK(caller_open_root("/usr/share", &root, &e) == 0 && !root.is_slash && root.above_count == 2,
              "/ and /usr are above /usr/share: %s", e.msg);
        root_done(&root);
        CHECK(caller_open_root("7,8,9,10:/usr", &root, &e) == 0 && root.named, "one of a user's: %s", e.msg);
        CHECK(root.named && root.named->uid == 7 && root.named->gid == 8 && root.named->group_count == 2 &&
                      root.named->groups[1] == 10,
              "with his groups");
        root_done(&root);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                CHECK(caller_open_root(bad[i], &root, &e) < 0, "'%s' is refused: %s", bad[i], e.msg);
                root_done(&root);
        }
}

int main(void)
{
        test_sockets();
        test_roots();
        return tap_done();
}
