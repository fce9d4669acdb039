/* Only for shared objects. libjansson.a is built for executables, and its access to stdin, for
 * messages of json_loadf(), links only into those. We never call that function. This definition
 * satisfies the linker.
 * Runs in: the agents in C, within a box, with the rights of the user's code. */
__attribute__((visibility("hidden"))) void *stdin;
