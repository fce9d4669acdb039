/* [args, kwargs, schema, result], each null if absent: bound arguments must be sound, and errors must be valid text. */
#include "engine/run/signature.h"
#include "wire/json.h"
#include "wire/value.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must_be_sound(json_t *value)
{
        struct buf attachments = BUF_INIT(1 << 20);
        struct cloche_err e;
        json_t *framed;
        int r = value_write(value, VALUE_FRAME, &attachments, &framed, &e);

        if ((r < 0 && r != -CLOCHE_E_TOO_LARGE) || (r == 0 && value_check(framed, attachments.size, &e) < 0))
                abort();
        if (r == 0)
                json_decref(framed);
        buf_done(&attachments);
}

static void must_be_text(const char *text)
{
        json_t *string = json_string(text);

        if (!string)
                abort();
        json_decref(string);
}

static void bind(const json_t *args, const json_t *kwargs, const json_t *schema, const json_t *result)
{
        struct arguments arguments = {0};
        struct schema_error schema_error;
        int r = signature_bind(args, kwargs, schema, &arguments, &schema_error);

        if (r == 0) {
                must_be_sound(arguments.args);
                must_be_sound(arguments.kwargs);
                if (json_array_size(arguments.holes) > json_array_size(arguments.args))
                        abort();
        }
        if (r == 0 && schema && result)
                r = signature_check_output(schema, result, &schema_error);
        if (r == 1) {
                must_be_text(schema_error.where);
                must_be_text(schema_error.what);
        }
        arguments_done(&arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *rows, *parts[4] = {NULL};
        struct cloche_err e;
        int good = 1;

        if (json_load_human((const char *)data, size, &rows, &e) < 0)
                return 0;
        for (size_t i = 0; i < 4; i++) {
                json_t *part = json_array_get(rows, i);

                if (!part || (json_is_null(part) && i < 3))
                        continue;
                good &= i == 3 || json_is_object(part) || (i == 0 && json_is_array(part));
                if (!good || value_read(part, VALUE_TEXT, NULL, 0, &parts[i], &e) < 0) {
                        good = 0;
                        break;
                }
        }
        if (good)
                bind(parts[0], parts[1], parts[2], parts[3]);
        for (size_t i = 0; i < 4; i++)
                json_decref(parts[i]);
        json_decref(rows);
        return 0;
}
