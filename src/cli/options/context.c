/* The options of the commands for contexts, notebooks and the prompt.
 * Runs in: the CLI, as its user. */
#include "setters.h"

TEXT_SETTER(sandbox)
TEXT_SETTER(context)
TEXT_SETTER(language)
TEXT_SETTER(cwd)
TEXT_SETTER(displays)
TEXT_SETTER(output)
FLAG_SETTER(input)
FLAG_SETTER(forkable)
FLAG_SETTER(no_files)
FLAG_SETTER(allow_errors)
FLAG_SETTER(restart)

static int set_count(struct cli_request *r, const char *v)
{
        return options_count(&r->sandbox.count, "--count", v, 1, 100);
}

const struct cli_option options_choice[] = {
        {"--sandbox", "SANDBOX", "use this sandbox, created if missing; default: a temporary one", set_sandbox},
        {0},
};
const struct cli_option options_context[] = {
        {"--context", "CONTEXT", "use this context; default: the language's default context, created on first use",
         set_context},
        {0},
};
const struct cli_option options_prompt[] = {
        {"--context", "CONTEXT", "use this context, created if missing; default: a temporary one", set_context},
        {0},
};
const struct cli_option options_language[] = {
        {"--language", "LANGUAGE",
         "python, javascript, typescript, bash, ruby or php; default: that of the notebook, or python", set_language},
        {0},
};
const struct cli_option options_context_create[] = {
        {"-C", "DIR", "initial working directory, created if missing; default: /workspace", set_cwd},
        {"--forkable", NULL, "allow forks and checkpoints; the interpreter then has the rights of a template",
         set_forkable},
        {0},
};
const struct cli_option options_cell[] = {
        {"-i", NULL, "answer input requests of the code with lines of standard input", set_input},
        {"--restart", NULL, "start a new interpreter if it has ended; default: only in a default context", set_restart},
        {0},
};
const struct cli_option options_displays[] = {
        {"--save-displays", "DIR",
         "save displays (pictures, PDF, HTML, …) as files in this directory, created if missing", set_displays},
        {0},
};
const struct cli_option options_fork[] = {
        {"--count", "N", "number of copies, at most 100; default: 1", set_count},
        {"--forkable", NULL, "allow forks of the copies too", set_forkable},
        {0},
};
const struct cli_option options_checkpoint[] = {
        {"--no-files", NULL, "without the workspace", set_no_files},
        {0},
};
const struct cli_option options_notebook[] = {
        {"-o", "FILE", "write the notebook to this file, '-' for standard output; default: replace the input file",
         set_output},
        {"--allow-errors", NULL, "continue after cells that fail", set_allow_errors},
        {0},
};
