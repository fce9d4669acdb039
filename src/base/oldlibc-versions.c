/* Linked into objects that are loaded in images, whose C library may be older than the one built
 * with (Debian 11: glibc 2.31). Functions that glibc 2.32 to 2.34 moved from libpthread and libdl
 * into libc have a new version since. Each name here is a jump to the old version, which newer
 * libraries have too. They are hidden, so they take precedence over the library's own. Link with
 * oldlibc_args, which name the old libraries. Runs in: interpreters of an image. */
#if defined(__x86_64__)
#define BASE "GLIBC_2.2.5"
#define ROBUST "GLIBC_2.12"
#define DLINFO "GLIBC_2.3.3"
#define JUMP(to) "jmp *" to "@GOTPCREL(%rip)"
#elif defined(__aarch64__)
#define BASE "GLIBC_2.17"
#define ROBUST BASE
#define DLINFO BASE
#define JUMP(to) "b " to
#else
#error "the first version of glibc's functions on this machine is not known here"
#endif

#define OLD(name, version)                                       \
        __asm__(".symver old_" #name ", " #name "@" version "\n" \
                ".text\n.globl " #name "\n.hidden " #name "\n"   \
                ".type " #name ", %function\n" #name ":\n" JUMP("old_" #name) "\n.size " #name ", . - " #name "\n")

OLD(dlerror, BASE);
OLD(dlinfo, DLINFO);
OLD(dlopen, BASE);
OLD(dlsym, BASE);
OLD(pthread_attr_setstacksize, BASE);
OLD(pthread_create, BASE);
OLD(pthread_join, BASE);
OLD(pthread_kill, BASE);
OLD(pthread_mutex_consistent, ROBUST);
OLD(pthread_mutex_timedlock, BASE);
OLD(pthread_mutexattr_destroy, BASE);
OLD(pthread_mutexattr_init, BASE);
OLD(pthread_mutexattr_setpshared, BASE);
OLD(pthread_mutexattr_setrobust, ROBUST);
OLD(pthread_rwlock_destroy, BASE);
OLD(pthread_rwlock_init, BASE);
OLD(pthread_rwlock_rdlock, BASE);
OLD(pthread_rwlock_tryrdlock, BASE);
OLD(pthread_rwlock_unlock, BASE);
OLD(pthread_rwlock_wrlock, BASE);
OLD(pthread_sigmask, BASE);
