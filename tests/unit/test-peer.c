/* Sockets whose other end belongs to another process. A close that waits would never end here:
 * its connection lingers forever. */
#include "base/fd.h"
#include "base/peer.h"
#include "table.h"
#include "tap.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int open_files(void)
{
        DIR *dir = opendir("/proc/self/fd");
        int count = 0;

        while (readdir(dir))
                count++;
        closedir(dir);
        return count;
}

static void pair_of(int type, int pair[2])
{
        if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
                CHECK(0, "socketpair: %s", strerror(errno));
}

/* A connection with unsent bytes for which the other end has no room. */
static void connect_slowly(int ret[2])
{
        const struct linger forever = {1, 100000};
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        _cleanup_fd_ int server_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        static char bytes[1 << 16];
        int ready = bind(server_fd, (struct sockaddr *)&address, size) == 0 && listen(server_fd, 1) == 0 &&
                    getsockname(server_fd, (struct sockaddr *)&address, &size) == 0;

        ret[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ready = ready && connect(ret[0], (struct sockaddr *)&address, size) == 0;
        ret[1] = accept(server_fd, NULL, NULL);
        while (ready && send(ret[0], bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
                ;
        CHECK(ready && setsockopt(ret[0], SOL_SOCKET, SO_LINGER, &forever, sizeof(forever)) == 0,
              "a connection lingers");
}

/* Sent, and held by no other process. */
static void send_slow(int socket_fd, const char *text)
{
        int pair[2], slow[2];

        connect_slowly(slow);
        pair_of(SOCK_DGRAM, pair);
        fd_send(pair[0], "x", 1, &slow[1], 1);
        fd_send(pair[0], "x", 1, &slow[0], 1);
        CHECK(fd_send(socket_fd, text, strlen(text), &pair[1], 1) == 0, "and is sent");
        for (int i = 0; i < 2; i++) {
                close(slow[i]);
                close(pair[i]);
        }
}

static void test_bytes(void)
{
        int pair[2];
        char text[16];

        pair_of(SOCK_STREAM, pair);
        CHECK(peer_receive(pair[1], text, sizeof(text)) < 0 && errno == EAGAIN, "nothing is there");
        CHECK(write(pair[0], "bytes", 5) == 5 && peer_receive(pair[1], text, 3) == 3 && memcmp(text, "byt", 3) == 0,
              "bytes are taken");
        CHECK(peer_receive(pair[1], text, sizeof(text)) == 2 && memcmp(text, "es", 2) == 0, "and the rest of them");
        CHECK(write(pair[0], "a", 1) == 1, "more");
        send_slow(pair[0], "b");
        CHECK(peer_receive(pair[1], text, sizeof(text)) < 0 && errno == EBADMSG, "descriptors behind them are refused");
        CHECK(peer_receive(pair[1], text, 1) < 0 && errno == EBADMSG, "the descriptors stay");
        peer_close(&pair[1]);
        CHECK(pair[1] == -EBADF && send(pair[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE,
              "the socket is closed with them in it");
        close(pair[0]);
        pair_of(SOCK_STREAM, pair);
        close(pair[0]);
        CHECK(peer_receive(pair[1], text, sizeof(text)) == 0, "the end is 0");
        peer_close(&pair[1]);
}

static void test_ends(void)
{
        static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
        int pair[2], copy_fd;

        for (size_t i = 0; i < 2; i++) {
                pair_of(types[i], pair);
                send_slow(pair[0], "x");
                peer_close(&pair[1]);
                CHECK(pair[1] == -EBADF, "with descriptors in it");
                close(pair[0]);
                pair_of(types[i], pair);
                CHECK(peer_copy_unread(pair[1]) < 0, "nothing is unread");
                close(pair[0]);
                close(pair[1]);
        }
        pair_of(SOCK_SEQPACKET, pair);
        CHECK(send(pair[0], "", 0, MSG_NOSIGNAL) == 0, "a packet without bytes");
        send_slow(pair[0], "x");
        copy_fd = peer_copy_unread(pair[1]);
        CHECK(copy_fd >= 0, "is seen by who asks whether something is unread");
        close(pair[1]);
        peer_close(&copy_fd);
        close(pair[0]);
        pair_of(SOCK_STREAM, pair);
        copy_fd = fcntl(pair[1], F_DUPFD_CLOEXEC, 3);
        peer_close_copy(&copy_fd);
        CHECK(write(pair[0], "x", 1) == 1, "a socket whose copy was closed goes on");
        close(pair[0]);
        peer_close(&pair[1]);
        copy_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        peer_close(&copy_fd);
        peer_close(&copy_fd);
        CHECK(copy_fd == -EBADF, "no socket, and nothing, are closed as well");
}

static void send_fd_out_of_band(int socket_fd, int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        struct iovec iov = {(char[]){'z'}, 1};
        struct msghdr msg = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *h = CMSG_FIRSTHDR(&msg);

        *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(h), &fd, sizeof(fd));
        CHECK(sendmsg(socket_fd, &msg, MSG_OOB | MSG_NOSIGNAL) == 1, "a descriptor is sent out of band");
}

/* A byte out of band brings descriptors that a look passes over, without peer_open. */
static void test_out_of_band(void)
{
        int pair[2], file_fd = fd_from_bytes("file", "abc", 3), before;
        char text[4];

        pair_of(SOCK_STREAM, pair);
        before = open_files();
        peer_open(pair[1]);
        send(pair[0], "x", 1, MSG_OOB | MSG_NOSIGNAL);
        send(pair[0], "y", 1, MSG_NOSIGNAL);
        CHECK(peer_receive(pair[1], text, sizeof(text)) == 2 && memcmp(text, "xy", 2) == 0,
              "a byte out of band is read in order");
        send_fd_out_of_band(pair[0], file_fd);
        CHECK(peer_receive(pair[1], text, sizeof(text)) == -1 && errno == EBADMSG, "its descriptors are seen");
        CHECK(open_files() == before, "and not taken");
        close(pair[0]);
        peer_close(&pair[1]);
        close(file_fd);
}

static void test_packets(void)
{
        int pair[2], fd, event_fd = eventfd(0, EFD_CLOEXEC), file_fd = fd_from_bytes("file", "abc", 3), before;
        struct rlimit before_full;
        const int both[] = {file_fd, event_fd}, reverse[] = {event_fd, file_fd};
        char text[4];

        pair_of(SOCK_SEQPACKET, pair);
        before = open_files();
        fd_send(pair[0], "abc", 3, both, 2);
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == 3 && fd >= 0,
              "a file that is wanted is taken");
        CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC && open_files() == before + 1, "alone, close-on-exec");
        close(fd);
        fd_send(pair[0], "abc", 3, reverse, 2);
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == 3 && fd == -EBADF &&
                      open_files() == before,
              "another is not");
        fd_send(pair[0], "abc", 3, both, 1);
        CHECK(peer_receive_with(pair[1], text, sizeof(text), 0, &fd, 0) == 3 && fd == -EBADF && open_files() == before,
              "nor one that nobody wants");
        fd_send(pair[0], "abcde", 5, both, 1);
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == -EMSGSIZE && fd == -EBADF &&
                      open_files() == before,
              "a cut packet brings none");
        fd_send(pair[0], "abc", 3, both, 2);
        before_full = table_fill();
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == -EMFILE && fd == -EBADF &&
                      memcmp(text, "abc", 3) == 0,
              "one without room for what it brings is whole");
        setrlimit(RLIMIT_NOFILE, &before_full);
        CHECK(open_files() == before, "and brings none");
        send_slow(pair[0], "abc");
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == 3 && fd == -EBADF,
              "one that lingers is let go of");
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, MSG_DONTWAIT) == -EAGAIN,
              "nothing more is there");
        close(pair[0]);
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == 0, "the end is 0");
        close(pair[1]);
        close(event_fd);
        close(file_fd);
}

/* No thread's stack has room then. */
static void set_stacks(size_t size)
{
        pthread_attr_t attributes;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, size);
        CHECK(pthread_setattr_default_np(&attributes) == 0, "stacks of %zu bytes", size);
        pthread_attr_destroy(&attributes);
}

static void test_without_threads(void)
{
        int pair[2], slow[2], fd, before = open_files();
        char text[4];

        pair_of(SOCK_SEQPACKET, pair);
        set_stacks((size_t)1 << 47);
        connect_slowly(slow);
        peer_discard(&slow[0], 1);
        CHECK(fcntl(slow[0], F_GETFD) >= 0, "without a thread one stays open");
        send_slow(pair[0], "abc");
        CHECK(peer_receive_with(pair[1], text, sizeof(text), S_IFREG, &fd, 0) == 3 && fd == -EBADF,
              "and one that was sent");
        CHECK(open_files() == before + 5, "which holds up nobody");
        set_stacks(1 << 20);
        peer_discard(NULL, 0);
        CHECK(open_files() == before + 3, "a later call closes both");
        close(slow[1]);
        close(pair[0]);
        close(pair[1]);
}

int main(void)
{
        int before = open_files();

        test_bytes();
        test_ends();
        test_out_of_band();
        test_packets();
        test_without_threads();
        CHECK(open_files() == before, "nothing stays open");
        return tap_done();
}
