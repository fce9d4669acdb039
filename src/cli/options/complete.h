#ifndef CLOCHE_CLI_OPTIONS_COMPLETE_H
#define CLOCHE_CLI_OPTIONS_COMPLETE_H

#include "cli/command/cli.h"

#include <stddef.h>

/* Print completions of the last word after "cloche"; returns the exit code. */
int complete(const struct cli_command *commands, size_t command_count, int count, char **words);

#endif
