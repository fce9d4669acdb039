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
        {"--sandbox", "SANDBOX",
         "in this one, made when it is not there; default: in one of its own, which ends with it", set_sandbox},
        {0},
};
const struct cli_option options_context[] = {
        {"--context", "CONTEXT", "in this one; default: the language's default one, made on first use", set_context},
        {0},
};
const struct cli_option options_prompt[] = {
        {"--context", "CONTEXT", "in this one, made when it is not there; default: one of its own, which ends with it",
         set_context},
        {0},
};
const struct cli_option options_language[] = {
        {"--language", "LANGUAGE",
         "python, javascript, typescript, bash, ruby or php; default: python, or what a notebook says", set_language},
        {0},
};
const struct cli_option options_context_create[] = {
        {"-C", "DIR", "where it begins, made when it is not there; default: /workspace", set_cwd},
        {"--forkable", NULL, "it can be forked, and has checkpoints; its interpreter then has a template's rights",
         set_forkable},
        {0},
};
const struct cli_option options_cell[] = {
        {"-i", NULL, "the code may ask for input: lines of standard input", set_input},
        {"--restart", NULL, "begin anew when the interpreter has ended; default: only in a default context",
         set_restart},
        {0},
};
const struct cli_option options_displays[] = {
        {"--save-displays", "DIR",
         "write what is displayed as picture, PDF, HTML and the like into files there, made when it is not there",
         set_displays},
        {0},
};
const struct cli_option options_fork[] = {
        {"--count", "N", "so many copies, at most 100; default: 1", set_count},
        {"--forkable", NULL, "the copies too can be forked", set_forkable},
        {0},
};
const struct cli_option options_checkpoint[] = {
        {"--no-files", NULL, "without the workspace", set_no_files},
        {0},
};
const struct cli_option options_notebook[] = {
        {"-o", "FILE", "write the notebook there, '-' for standard output; default: in place of what was read",
         set_output},
        {"--allow-errors", NULL, "run all cells, whatever fails", set_allow_errors},
        {0},
};
