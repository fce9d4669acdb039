/* Only for shared objects. libjansson.a is built for executables, and reads one variable of the C library in a way that only
 * they can: stdin, to name it in messages of json_loadf(), which nobody here calls. This one satisfies the linker. */
__attribute__((visibility("hidden"))) void *stdin;
