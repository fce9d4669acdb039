#include "net.h"

#include "base/err.h"
#include "base/fd.h"

#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

int net_loopback_up(struct cloche_err *e)
{
        _cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        struct ifreq request = {.ifr_flags = IFF_UP};

        if (fd < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "open a socket in the box");
        strcpy(request.ifr_name, "lo");
        if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
                return err_os(e, CLOCHE_E_NAMESPACE, errno, "bring the box's loopback up");
        return 0;
}
