/* Linked into a program that runs in images, whose C library may be older than the one built with.
 * Since glibc 2.34 the library runs a program's constructors itself; before, the program passed a
 * function that does so. The old version of __libc_start_main calls that function in both. Runs in:
 * programs of ours in boxes. */
#if defined(__x86_64__)
__asm__(".symver old_start, __libc_start_main@GLIBC_2.2.5");
#elif defined(__aarch64__)
__asm__(".symver old_start, __libc_start_main@GLIBC_2.17");
#else
#error "the first version of glibc's functions on this machine is not known here"
#endif

typedef int program(int argc, char **argv, char **env);
typedef void constructor(int argc, char **argv, char **env);

int old_start(program *run, int argc, char **argv, program *begin, void (*end)(void), void (*end_loader)(void),
              void *stack);
__attribute__((visibility("hidden"), used)) int start(program *run, int argc, char **argv, program *begin,
                                                      void (*end)(void), void (*end_loader)(void),
                                                      void *stack) __asm__("__libc_start_main");
extern constructor *const preinit_begin[] __asm__("__preinit_array_start"), *const
        preinit_end[] __asm__("__preinit_array_end");
extern constructor *const init_begin[] __asm__("__init_array_start"), *const init_end[] __asm__("__init_array_end");

static int construct(int argc, char **argv, char **env)
{
        for (constructor *const *each = preinit_begin; each < preinit_end; each++)
                (*each)(argc, argv, env);
        for (constructor *const *each = init_begin; each < init_end; each++)
                (*each)(argc, argv, env);
        return 0;
}

int start(program *run, int argc, char **argv, program *begin, void (*end)(void), void (*end_loader)(void), void *stack)
{
        return old_start(run, argc, argv, begin ? begin : construct, end, end_loader, stack);
}
