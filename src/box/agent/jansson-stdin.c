/* Only for shared objects. libjansson.a is built for executables, and its access to stdin, for
 * messages of json_loadf(), links only into those. We never call that function. This definition
 * satisfies the linker. */
__attribute__((visibility("hidden"))) void *stdin;
