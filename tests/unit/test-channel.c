/* An agent's channel, whose other end this test plays: which descriptors are taken. */
#include "engine/loop/channel.h"

#include "base/fd.h"
#include "tap.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char frame[] = "\x1e\0\0\0\x1a\0\0\0{\"jsonrpc\":\"2.0\",\"method\":\"m\"}";
static struct told {
        int messages, ends, errors;
} told;

static int on_message(void *data, const struct rpc_message *m, const struct frame *f, struct cloche_err *e)
{
        (void)data, (void)m, (void)f, (void)e;
        told.messages++;
        return 0;
}

static void on_end(void *data, const struct cloche_err *e)
{
        (void)data;
        told.ends++;
        told.errors += e != NULL;
}

static int memory(size_t size, int seals)
{
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

        if (fd < 0 || ftruncate(fd, (off_t)size) < 0 || (seals && fcntl(fd, F_ADD_SEALS, seals) < 0))
                _exit(1);
        return fd;
}

/* Memory with pages beyond its end, which its size does not show. */
static int memory_with_more_pages(size_t size, int seals)
{
        int fd = memory(size, 0);

        if (fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 8 << 20) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
                _exit(1);
        return fd;
}

/* fd: closed. Returns true if the channel kept it. */
static int send_to(mode_t takes, int fd)
{
        char text[64];
        size_t json = strlen(frame + 8), size = 8 + json;
        struct channel c;
        int agent_fd, ret;

        told = (struct told){0};
        memcpy(text, frame, sizeof(frame));
        text[0] = (char)(4 + json);
        text[4] = (char)json;
        if (channel_open(&c, 1 << 20, &agent_fd, NULL) < 0)
                _exit(1);
        c.takes = takes;
        c.on_message = on_message;
        c.on_end = on_end;
        if (fd_send(agent_fd, text, size, &fd, fd >= 0) < 0)
                _exit(1);
        channel_drain(&c);
        ret = c.received_fd >= 0;
        channel_close(&c);
        fd_close(&agent_fd);
        fd_close(&fd);
        return ret;
}

int main(void)
{
        const int fixed = F_SEAL_SHRINK | F_SEAL_GROW;

        CHECK(!send_to(0, -EBADF) && told.messages == 1 && told.ends == 0, "a message alone");
        CHECK(!send_to(0, memory(4096, fixed)) && told.errors == 1, "no descriptor is taken where none is expected");
        CHECK(send_to(S_IFREG, memory(CHANNEL_MEMORY_BYTES_MAX, fixed)) && told.messages == 1 && told.errors == 0,
              "memory of a fixed size is kept");
        CHECK(!send_to(S_IFREG, memory(CHANNEL_MEMORY_BYTES_MAX + 1, fixed)) && told.messages == 0 && told.errors == 1,
              "larger memory ends the channel");
        CHECK(!send_to(S_IFREG, memory_with_more_pages(4096, fixed)) && told.messages == 0 && told.errors == 1,
              "so does memory with pages beyond its end");
        CHECK(!send_to(S_IFREG, memory(4096, F_SEAL_SHRINK)) && told.errors == 1, "memory that can grow does");
        CHECK(!send_to(S_IFREG, memory(4096, F_SEAL_GROW)) && told.errors == 1, "memory that can shrink does");
        CHECK(!send_to(S_IFREG, open("/proc/self/exe", O_RDONLY | O_CLOEXEC)) && told.errors == 1, "a file does");
        CHECK(!send_to(S_IFREG, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) && told.messages == 1,
              "a directory is closed, and its message counts");
        CHECK(send_to(S_IFDIR, open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) && told.messages == 1,
              "but by who takes directories");
        return tap_done();
}
