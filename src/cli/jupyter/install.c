/* cloche jupyter install: make kernels known to front ends of Jupyter. Runs in: the CLI, as its
 * user. */
#include "cli/options/options.h"
#include "cli/run/xdg.h"
#include "jupyter/jupyter.h"
#include "kernelspec.h"

static int run(struct cli_request *request)
{
        struct kernelspec spec = {.language = request->jupyter.language,
                                  .sandbox = request->sandbox.sandbox,
                                  .socket = request->sandbox.socket,
                                  .is_forkable = request->jupyter.is_forkable,
                                  .prefix = request->jupyter.prefix};
        const struct jupyter_language *language;
        char socket[XDG_PATH_BYTES];
        int code = 0;

        if (request->jupyter.is_user && spec.prefix)
                return cli_bad("--user and --prefix contradict each other: use one");
        if (spec.socket) { /* front ends start kernels in the directory of the notebook */
                code = cli_xdg_make_absolute(spec.socket, socket, sizeof(socket));
                spec.socket = socket;
        }
        if (code == 0 && spec.language)
                return kernelspec_write(&spec);
        for (size_t i = 0; code == 0 && (language = jupyter_language_at(i)); i++) {
                spec.language = language->name;
                code = kernelspec_write(&spec);
        }
        return code;
}

const struct cli_handler command_jupyter_install = {.run = run};
