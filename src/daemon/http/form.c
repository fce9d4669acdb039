/* Bodies of forms. Runs in: cloched-engine, on its loop, with the rights of the daemon's user. */
#include "form.h"
#include "server-internal.h"

#include <stdlib.h>

#define BUFFER_BYTES (64u << 10) /* longer headers of a part end the parsing */

struct http_form {
        struct MHD_PostProcessor *mhd;
        const struct http_form_handler *handler;
        void *data;
};

static enum MHD_Result on_data(void *data, enum MHD_ValueKind kind, const char *key, const char *file_name,
                               const char *type, const char *encoding, const char *bytes, uint64_t offset, size_t size)
{
        struct http_form *form = data;

        (void)kind;
        (void)type;
        (void)encoding;
        return form->handler->on_piece(form->data, key ? key : "", file_name, offset, bytes, size) ? MHD_NO : MHD_YES;
}

struct http_form *http_form_new(const struct http_request *request, const struct http_form_handler *handler, void *data)
{
        struct http_form *form = calloc(1, sizeof(*form));

        if (!form)
                return NULL;
        *form = (struct http_form){.handler = handler, .data = data};
        form->mhd = MHD_create_post_processor(request->mhd, BUFFER_BYTES, on_data, form);
        if (form->mhd)
                return form;
        free(form);
        return NULL;
}

int http_form_feed(struct http_form *form, const void *bytes, size_t size)
{
        return MHD_post_process(form->mhd, bytes, size) == MHD_YES ? 0 : -1;
}

int http_form_free(struct http_form *form)
{
        int r = form && MHD_destroy_post_processor(form->mhd) != MHD_YES ? -1 : 0;

        free(form);
        return r;
}
