#include "load.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function of the program's own, or of the libraries it is linked with; returned by memory,
 * because an object pointer is no function pointer in C. */
static int find(void *handle, const char *name, void *ret_function)
{
        void *found = dlsym(handle, name);

        memcpy(ret_function, &found, sizeof(found));
        return found != NULL;
}

static void load_library_parts(struct loaded *l, int is_cpp)
{
        if (!is_cpp || !find(l->handle, "_Znwm", &l->library.allocate))
                if (!find(l->handle, "malloc", &l->library.allocate))
                        l->library.allocate = malloc;
        if (!is_cpp)
                return;
        find(l->handle, "_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_",
             &l->library.insert_and_rebalance);
        find(l->handle, "_ZSt11_Hash_bytesPKvmm", &l->library.hash_bytes);
        find(l->handle, "_ZNSt10filesystem7__cxx114path5_ListC1Ev", &l->library.make_path_list);
        find(l->handle, "_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv", &l->library.split_path);
}

static int load_catch(struct loaded *l, const char *folder, char *ret_why, size_t why_size)
{
        char path[512];
        void *handle;

        snprintf(path, sizeof(path), "%s/libcloche-catch.so", folder);
        handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle || !find(handle, "cloche_native_catch", &l->catch) ||
            !find(handle, "cloche_native_flush", &l->flush)) {
                snprintf(ret_why, why_size, "%s", dlerror());
                return -1;
        }
        return 0;
}

/* "/tmp/.cloche-x/.object: undefined symbol: f": the path is useless to the user. */
static void tell_loading(const char *path, char *ret_why, size_t why_size)
{
        const char *text = dlerror();

        if (text && strncmp(text, path, strlen(path)) == 0)
                text += strlen(path) + strspn(text + strlen(path), ": ");
        snprintf(ret_why, why_size, "%s", text ? text : "cannot be loaded");
}

int load(const char *path, const char *folder, int is_cpp, enum load_mode mode, struct loaded *ret, char *ret_why,
         size_t why_size)
{
        static const int flags[] = {
                [LOAD_LOCAL] = RTLD_LOCAL,
                [LOAD_GLOBAL] = RTLD_GLOBAL,
                [LOAD_OWN] = RTLD_LOCAL | RTLD_DEEPBIND,
        };
        struct link_map *map;

        *ret = (struct loaded){0};
        ret->handle = dlopen(path, RTLD_NOW | flags[mode]);
        if (!ret->handle) {
                tell_loading(path, ret_why, why_size);
                return -1;
        }
        if (dlinfo(ret->handle, RTLD_DI_LINKMAP, &map) < 0) {
                snprintf(ret_why, why_size, "%s", dlerror());
                return -1;
        }
        load_library_parts(ret, is_cpp);
        if (is_cpp && load_catch(ret, folder, ret_why, why_size) < 0)
                return -1;
        ret->program = program_read(path, map->l_addr, ret_why, why_size);
        return ret->program ? 0 : -1;
}
