/* The packets that the keeper accepts from servers of mounts, and those for which it cuts them off. */
#include "base/fd.h"
#include "keeper/passthrough.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>

static int fuse_fd, file_fd, write_fd, path_fd, null_fd, directory_fd, proc_fd, pipe_fds[2];

/* Send one packet and return its outcome; *ret_result has the answer's result, if there is an answer. */
static int try(const void *packet, size_t size, const int *fds, size_t fd_count, int32_t *ret_result)
{
        struct passthrough passthrough;
        _cleanup_fd_ int their_fd = -EBADF, our_fd = -EBADF;
        struct passthrough_answer answer = {0};
        struct cloche_err e;
        size_t no_fds = 0;
        int r;

        if (passthrough_new(&passthrough, &their_fd, &e) < 0)
                return 1;
        our_fd = passthrough.fd;
        if (fd_send(their_fd, packet, size, fds, fd_count) < 0)
                return 2;
        r = passthrough_serve(&passthrough);
        *ret_result = fd_receive(their_fd, &answer, sizeof(answer), NULL, &no_fds, MSG_DONTWAIT) == sizeof(answer)
                              ? answer.result
                              : 0;
        return r;
}

static int try_open(int first_fd, int second_fd, int32_t *ret_result)
{
        const struct passthrough_request request = {.op = PASSTHROUGH_OPEN, .serial = 7};

        return try(&request, sizeof(request), (const int[]){first_fd, second_fd}, 2, ret_result);
}

static void test_packets(void)
{
        struct passthrough_request request = {.op = PASSTHROUGH_OPEN};
        const int fds[3] = {fuse_fd, file_fd, file_fd};
        char large[sizeof(request) + 1] = {0};
        int32_t result = 0;

        CHECK(try(&request, sizeof(request), fds, 2, &result) == 0, "a packet as it should be is taken");
        CHECK(try(&request, sizeof(request) - 1, fds, 2, &result) < 0 && result == 0, "a short one is not");
        CHECK(try(large, sizeof(large), fds, 2, &result) < 0 && result == 0, "nor a long one");
        CHECK(try("", 0, NULL, 0, &result) < 0, "nor an empty one");
        CHECK(try(&request, sizeof(request), fds, 0, &result) < 0, "nor one without descriptors");
        CHECK(try(&request, sizeof(request), fds, 1, &result) < 0, "nor with one");
        CHECK(try(&request, sizeof(request), fds, 3, &result) < 0, "nor with three");
        request.reserved = 1;
        CHECK(try(&request, sizeof(request), fds, 2, &result) < 0, "nor with something in reserve");
        request = (struct passthrough_request){.op = PASSTHROUGH_OPEN, .id = 1};
        CHECK(try(&request, sizeof(request), fds, 2, &result) < 0, "an open has no id");
        request = (struct passthrough_request){.op = PASSTHROUGH_OP_COUNT};
        CHECK(try(&request, sizeof(request), fds, 2, &result) < 0, "there is no third request");
        request = (struct passthrough_request){.op = PASSTHROUGH_CLOSE, .id = 1};
        CHECK(try(&request, sizeof(request), fds, 2, &result) < 0, "a close has one descriptor");
        CHECK(try(&request, sizeof(request), fds, 1, &result) < 0, "an id that was never given is not closed");
        request.id = -1;
        CHECK(try(&request, sizeof(request), fds, 1, &result) < 0, "nor one that cannot be");
}

static void test_descriptors(void)
{
        int32_t result = 0;

        CHECK(try_open(fuse_fd, file_fd, &result) == 0 && result < 0,
              "a device that serves no mount is the kernel's to refuse");
        CHECK(try_open(null_fd, file_fd, &result) < 0 && result == 0, "another device cuts off");
        CHECK(try_open(file_fd, file_fd, &result) < 0, "a file for the device, too");
        CHECK(try_open(file_fd, fuse_fd, &result) < 0, "and both exchanged");
        CHECK(try_open(fuse_fd, write_fd, &result) < 0, "a file that may be written");
        CHECK(try_open(fuse_fd, path_fd, &result) < 0, "a place (O_PATH)");
        CHECK(try_open(fuse_fd, directory_fd, &result) < 0, "a directory");
        CHECK(try_open(fuse_fd, pipe_fds[0], &result) < 0, "a pipe");
        CHECK(try_open(fuse_fd, null_fd, &result) < 0, "a device for the file");
        CHECK(try_open(fuse_fd, proc_fd, &result) == 0 && result == -EOPNOTSUPP, "a file of /proc is refused");
}

static void test_bounds(void)
{
        struct passthrough_request request = {.op = PASSTHROUGH_OPEN};
        struct passthrough passthrough;
        struct passthrough_answer answer;
        struct cloche_err e;
        const int fds[2] = {fuse_fd, file_fd};
        int their_fd = -EBADF, sent = 0, r = 0, next;
        size_t no_fds = 0;

        CHECK(passthrough_new(&passthrough, &their_fd, &e) == 0, "a pair is made");
        CHECK(passthrough_serve(&passthrough) == 0, "nobody waits for who says nothing");
        passthrough.alive = PASSTHROUGH_IDS_MAX;
        fd_send(their_fd, &request, sizeof(request), fds, 2);
        CHECK(passthrough_serve(&passthrough) == 0 &&
                      fd_receive(their_fd, &answer, sizeof(answer), NULL, &no_fds, MSG_DONTWAIT) > 0 &&
                      answer.result == -ENOSPC,
              "no more than %d ids are alive", PASSTHROUGH_IDS_MAX);
        while (r == 0 && sent++ < 100000)
                r = fd_send(their_fd, &request, sizeof(request), fds, 2) < 0 ? 1 : passthrough_serve(&passthrough);
        CHECK(r == -EAGAIN, "who asks and does not listen is cut off (%d after %d)", r, sent);
        next = dup(0);
        CHECK(next == their_fd + 1, "no descriptor is left (%d, %d)", next, their_fd);
        close(next);
        close(their_fd);
        while (passthrough_serve(&passthrough) == 0)
                ;
        CHECK(passthrough_serve(&passthrough) == -EPIPE || passthrough_serve(&passthrough) < 0,
              "the end of the socket is told");
        close(passthrough.fd);
}

int main(void)
{
        char name[] = "/tmp/test-passthrough-XXXXXX";

        fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
        if (fuse_fd < 0 || geteuid() != 0) {
                printf("1..0 # SKIP needs root and /dev/fuse\n");
                return 0;
        }
        write_fd = mkstemp(name);
        file_fd = open(name, O_RDONLY | O_CLOEXEC);
        path_fd = open(name, O_PATH | O_CLOEXEC);
        unlink(name);
        null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        directory_fd = open("/", O_RDONLY | O_CLOEXEC);
        proc_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        if (write_fd < 0 || file_fd < 0 || path_fd < 0 || proc_fd < 0 || pipe(pipe_fds) < 0)
                return 1;
        test_packets();
        test_descriptors();
        test_bounds();
        return tap_done();
}
