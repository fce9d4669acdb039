#include "notify.h"

#include "base/fd.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int notify_fd = -1;

void notify_prepare(void)
{
        const char *path = getenv("NOTIFY_SOCKET");
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        socklen_t size;

        if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(address.sun_path))
                return;
        strcpy(address.sun_path, path);
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
        if (path[0] == '@')
                address.sun_path[0] = '\0'; /* an abstract name */
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (notify_fd >= 0 && connect(notify_fd, (struct sockaddr *)&address, size) < 0)
                fd_close(&notify_fd);
        unsetenv("NOTIFY_SOCKET");
}

void notify(const char *state)
{
        if (notify_fd >= 0)
                (void)send(notify_fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL);
}
