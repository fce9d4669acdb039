/* chroot(2) that succeeds, for the sshd of root of a sandbox (cli/ssh/proxy.c). sshd shuts the
 * part of it that reads what a client sends before its login into an empty directory, if it is
 * root, and ends if it cannot. Root of a sandbox has no chroot(2): client and server are one
 * user's there, and the box is the wall. Runs in: sshd, as root of a box. No C library is named:
 * it takes the one that is there. */
int chroot(const char *path);

__attribute__((visibility("default"))) int chroot(const char *path)
{
        (void)path;
        return 0;
}
