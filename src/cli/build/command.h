/* cloche image build CONTEXT. */
#ifndef CLOCHE_CLI_BUILD_COMMAND_H
#define CLOCHE_CLI_BUILD_COMMAND_H

struct cli_request;

/* Build the context of the first word. 0, or the exit code after a line was printed. */
int build_image(struct cli_request *request);

#endif
