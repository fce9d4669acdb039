/* sandbox.rename. The directory of a sandbox has its name, and the rename(2) of that is the whole
 * step: a daemon that is killed leaves the sandbox under one of the two names. Runs in:
 * cloched-engine, on its loop, with the rights of the daemon's user. */
#include "log.h"

#include "base/err.h"
#include "sandbox/core/store.h"
#include "sandbox/environment/packages.h"

#include <string.h>

static int check_name(const struct sandbox_request *request, const char *name, struct cloche_err *e)
{
        int r = name ? sandbox_name_check(name, e)
                     : err_set(e, CLOCHE_E_INVALID_ARGUMENT, "the field \"name\" is missing: the new name");

        if (r == 0 && sandbox_find(request->all, request->principal, name))
                return err_set(e, CLOCHE_E_STATE, "there is a sandbox \"%s\" already: choose another name", name);
        if (r == 0 && request->sandbox->awaits_files)
                return err_set(e, CLOCHE_E_STATE, "the sandbox \"%s\" is still being made", request->sandbox->name);
        return r < 0 ? r : sandbox_packages_check_name(request->all, request->principal, name, e);
}

int handle_RENAME(struct sandbox_request *request, struct cloche_err *e)
{
        struct sandbox *s = request->sandbox;
        const char *name = sandbox_request_text(request, "name");
        char before[SANDBOX_NAME_MAX];
        int r = check_name(request, name, e);

        if (r < 0)
                return r;
        r = sandbox_store_rename(s, name);
        if (r < 0)
                return err_os(e, CLOCHE_E_RESOURCE, -r, "rename the sandbox %s in the state directory", s->name);
        strcpy(before, s->name);
        strcpy(s->name, name);
        (void)sandbox_store_define(s, NULL); /* the next daemon goes by the directory */
        sandbox_log_format(s, "renamed", "from \"%s\"", before);
        sandbox_send_event(s, "renamed", json_pack("{s:s, s:s}", "from", before, "sandbox", s->name));
        sandbox_request_result(request, sandbox_json(s), NULL);
        return 0;
}
