/* Setters of options that store a text or a flag: set_MEMBER() for the member of that name in
 * struct sandbox_options. */
#ifndef CLOCHE_CLI_OPTIONS_SETTERS_H
#define CLOCHE_CLI_OPTIONS_SETTERS_H

#include "options.h"

#define TEXT_SETTER(member)                                           \
        static int set_##member(struct cli_request *r, const char *v) \
        {                                                             \
                r->sandbox.member = v;                                \
                return 0;                                             \
        }
#define FLAG_SETTER(member)                                           \
        static int set_##member(struct cli_request *r, const char *v) \
        {                                                             \
                (void)v;                                              \
                r->sandbox.member = 1;                                \
                return 0;                                             \
        }

#endif
