/* Runs in: cloched, on its loop. Requests come from anyone who can connect. */
#include "framing.h"

#include <string.h>
#include <strings.h>

#define EXTENSION_MAX 256
#define TRAILERS_MAX (8u << 10)
#define HEAD_MAX (24u << 10) /* per request; at its own limit libmicrohttpd could not send our error */
#define HEADER_COST 64       /* libmicrohttpd's overhead per header, cookie and argument of the query */
#define TOKEN "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LENGTH "Content-Length"
#define ENCODING "Transfer-Encoding"
#define COOKIE "Cookie"
#define HOST "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._~%!$&'()*+;=:[]"

/* In the order of a message. A state *_LF comes after the CR. */
enum framing_state {
        BEFORE,
        BEFORE_LF,
        FIRST,
        FIRST_LF,
        LINE,
        NAME,
        VALUE,
        VALUE_LF,
        HEAD_LF,
        BODY,
        SIZE,
        EXTENSION,
        SIZE_LF,
        DATA,
        DATA_CR,
        DATA_LF,
        RAW
};

/* The output for one byte. */
enum emit { NOTHING, BYTE, LINE_END };

static enum emit fail(struct framing *f, enum framing_fault fault)
{
        f->fault = fault;
        return NOTHING;
}

static enum emit go(struct framing *f, enum framing_state state, enum emit emit)
{
        f->state = (int)state;
        return emit;
}

static int is_one_of(const char *set, char c)
{
        return c && strchr(set, c);
}

/* HTAB, visible ASCII, and bytes above ASCII, whose meaning is undefined (RFC 9110, 5.5). */
static int is_text(char c)
{
        return c == '\t' || ((unsigned char)c >= ' ' && c != 0x7f);
}

/* -- the first line ------------------------------------------------------------------------------------------- */

static int read_version(struct framing *f)
{
        f->minor = f->word[f->word_size - 1] - '0';
        return f->word_size == 8 && memcmp(f->word, "HTTP/1.", 7) == 0 && (f->minor == 0 || f->minor == 1) ? 0 : -1;
}

static void keep_word(struct framing *f, char c)
{
        if (f->word_size < sizeof(f->word))
                f->word[f->word_size] = c;
        f->word_size += f->word_size < sizeof(f->word);
}

static void begin_message(struct framing *f)
{
        f->part = f->minor = f->is_get = 0;
        f->status = 0;
        f->hosts = f->lengths = f->encodings = f->has_websocket = f->in_trailers = 0;
        f->left = f->length = 0;
        f->word_size = f->value_size = f->head_bytes = f->trailer_bytes = 0;
}

static int is_head_full(struct framing *f, size_t size)
{
        f->head_bytes += size;
        return f->side == FRAMING_REQUESTS && f->head_bytes > HEAD_MAX;
}

static enum emit take_request_line(struct framing *f, char c)
{
        if (is_head_full(f, f->part == 1 && is_one_of("?&", c) ? HEADER_COST : 1))
                return fail(f, FRAMING_HEAD);
        if (c == ' ' && f->part < 2 && f->word_size > 0) {
                if (f->part == 0)
                        f->is_get = f->word_size == 3 && memcmp(f->word, "GET", 3) == 0;
                f->part++;
                f->word_size = 0;
                return BYTE;
        }
        if (c == '\r' && f->part == 2 && f->word_size > 0 && read_version(f) == 0)
                return go(f, FIRST_LF, BYTE);
        if (c == '\n')
                return fail(f, FRAMING_LINE_END);
        if (f->part == 0 ? !is_one_of(TOKEN, c) : !is_text(c) || c == ' ' || c == '\t')
                return fail(f, FRAMING_FIRST_LINE);
        keep_word(f, c);
        return BYTE;
}

static enum emit end_status_part(struct framing *f, char c)
{
        if (f->word_size == 0 || (f->part == 0 ? read_version(f) < 0 : f->word_size != 3))
                return fail(f, FRAMING_STATUS_LINE);
        f->word_size = 0;
        f->part++;
        return c == '\r' ? go(f, FIRST_LF, BYTE) : BYTE;
}

static enum emit take_status_line(struct framing *f, char c)
{
        if (f->part == 2)
                return c == '\r'    ? go(f, FIRST_LF, BYTE)
                       : c == '\n'  ? fail(f, FRAMING_LINE_END)
                       : is_text(c) ? BYTE
                                    : fail(f, FRAMING_STATUS_LINE);
        if (c == ' ' || (c == '\r' && f->part == 1))
                return end_status_part(f, c);
        if (f->part == 1 ? c < '0' || c > '9' : !is_text(c))
                return fail(f, FRAMING_STATUS_LINE);
        if (f->part == 1 && f->word_size < 3)
                f->status = f->status * 10 + (unsigned)(c - '0');
        keep_word(f, c);
        return BYTE;
}

static enum emit take_first(struct framing *f, char c)
{
        return f->side == FRAMING_REQUESTS ? take_request_line(f, c) : take_status_line(f, c);
}

/* Empty lines between requests are skipped (RFC 9112, 2.2). */
static enum emit take_before(struct framing *f, char c)
{
        if (c == '\r' && f->side == FRAMING_REQUESTS)
                return go(f, BEFORE_LF, NOTHING);
        begin_message(f);
        f->state = FIRST;
        return take_first(f, c);
}

static enum emit take_before_lf(struct framing *f, char c)
{
        return c == '\n' ? go(f, BEFORE, NOTHING) : fail(f, FRAMING_LINE_END);
}

static enum emit take_first_lf(struct framing *f, char c)
{
        return c == '\n' ? go(f, LINE, BYTE) : fail(f, FRAMING_LINE_END);
}

/* -- headers -------------------------------------------------------------------------------------------------- */

static void trim(struct framing *f)
{
        while (f->value_size > 0 && is_one_of(" \t", f->value[f->value_size - 1]))
                f->value_size--;
}

static int is_value(const struct framing *f, const char *text)
{
        return f->value_size == strlen(text) && strncasecmp(f->value, text, f->value_size) == 0;
}

/* Check each byte before it passes: libmicrohttpd answers twice to an invalid length, and trailing
 * blanks make a length invalid for it. With a trailing blank it does not treat an encoding as
 * chunked. */
static int is_length_byte(struct framing *f, char c)
{
        if (c == '\r')
                return f->value_size > 0;
        if (is_one_of(" \t", c))
                return 1;
        if (c < '0' || c > '9' || f->length > (INT64_MAX - 9) / 10 ||
            (f->value_size > 0 && is_one_of(" \t", f->value[f->value_size - 1])))
                return 0;
        f->length = f->length * 10 + (uint64_t)(c - '0');
        return 1;
}

static enum framing_fault on_encoding(struct framing *f)
{
        if (f->encodings++)
                return FRAMING_ENCODING_TWICE;
        return is_value(f, "chunked") ? FRAMING_SOUND : FRAMING_ENCODING;
}

static enum framing_fault on_host(struct framing *f)
{
        if (f->side == FRAMING_ANSWERS)
                return FRAMING_SOUND;
        if (f->hosts++)
                return FRAMING_HOST_TWICE;
        if (f->value_size == sizeof(f->value))
                return FRAMING_HOST;
        for (size_t i = 0; i < f->value_size; i++)
                if (!is_one_of(HOST, f->value[i]))
                        return FRAMING_HOST;
        return FRAMING_SOUND;
}

static enum framing_fault on_upgrade(struct framing *f)
{
        f->has_websocket = is_value(f, "websocket");
        return FRAMING_SOUND;
}

static enum framing_fault on_length(struct framing *f)
{
        return f->value_size < sizeof(f->value) ? FRAMING_SOUND : FRAMING_LENGTH;
}

static const struct rule {
        const char *name;
        enum framing_fault (*apply)(struct framing *f);
        int is_of_head; /* forbidden as a trailer */
} rules[] = {
        {LENGTH, on_length, 1},
        {ENCODING, on_encoding, 1},
        {"Host", on_host, 1},
        {"Upgrade", on_upgrade, 0},
};

static int is_name(const struct framing *f, const char *name)
{
        return f->word_size == strlen(name) && strncasecmp(f->word, name, f->word_size) == 0;
}

static const struct rule *find_rule(const struct framing *f)
{
        for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
                if (is_name(f, rules[i].name))
                        return &rules[i];
        return NULL;
}

static enum framing_fault end_header(struct framing *f)
{
        const struct rule *rule = find_rule(f);

        trim(f);
        if (f->in_trailers)
                return rule && rule->is_of_head ? FRAMING_TRAILER : FRAMING_SOUND;
        return rule ? rule->apply(f) : FRAMING_SOUND;
}

static enum framing_fault check_head(const struct framing *f)
{
        if (f->encodings && f->lengths)
                return FRAMING_TWO_LENGTHS;
        if (f->encodings && f->minor == 0)
                return FRAMING_ENCODING_VERSION;
        if (f->side == FRAMING_REQUESTS && f->minor == 1 && !f->hosts)
                return FRAMING_HOST_MISSING;
        return FRAMING_SOUND;
}

static enum framing_state after_request_head(const struct framing *f)
{
        if (f->encodings)
                return SIZE;
        if (f->length > 0)
                return BODY;
        return f->is_get && f->has_websocket ? RAW : BEFORE;
}

/* RFC 9112, 6.3. */
static enum framing_state after_answer_head(const struct framing *f)
{
        if (f->status < 200 && f->status != 101)
                return BEFORE;
        if (f->is_head_request || f->status == 101 || f->status == 204 || f->status == 304)
                return RAW;
        if (f->encodings)
                return SIZE;
        return f->lengths && f->length > 0 ? BODY : RAW;
}

static enum emit end_head(struct framing *f)
{
        enum framing_fault fault = check_head(f);

        if (fault)
                return fail(f, fault);
        f->heads++;
        f->left = f->length;
        f->digits = 0;
        return go(f, f->side == FRAMING_REQUESTS ? after_request_head(f) : after_answer_head(f), BYTE);
}

/* Trailers are dropped: no client code uses them, and the parser is lenient there too. */
static enum emit of_header(struct framing *f)
{
        f->trailer_bytes += (size_t)f->in_trailers;
        if (!f->in_trailers && is_head_full(f, 1))
                return fail(f, FRAMING_HEAD);
        if (f->trailer_bytes > TRAILERS_MAX)
                return fail(f, FRAMING_TRAILER);
        return f->in_trailers ? NOTHING : BYTE;
}

/* After a fault the state stays that of the last byte that passed: poison_of relies on it. */
static enum emit go_in_header(struct framing *f, enum framing_state state)
{
        enum emit emit = of_header(f);

        return f->fault ? emit : go(f, state, emit);
}

static enum emit begin_value(struct framing *f)
{
        f->is_length = !f->in_trailers && is_name(f, LENGTH);
        f->is_cookie = !f->in_trailers && is_name(f, COOKIE);
        f->drops_blanks = f->is_length || is_name(f, ENCODING);
        if (f->is_length && f->lengths++)
                return fail(f, FRAMING_LENGTH_TWICE);
        return go_in_header(f, VALUE);
}

/* libmicrohttpd copies the cookies of a head, and lists them. */
static int is_cookie_full(struct framing *f, char c)
{
        return f->is_cookie && is_head_full(f, is_one_of(";,", c) ? HEADER_COST : 1);
}

static enum emit take_name(struct framing *f, char c)
{
        if (c == ':' && f->word_size > 0)
                return begin_value(f);
        else if (c == '\n' || c == '\r')
                return fail(f, c == '\n' ? FRAMING_LINE_END : FRAMING_NAME);
        else if (!is_one_of(TOKEN, c))
                return fail(f, FRAMING_NAME);
        else
                keep_word(f, c);
        return of_header(f);
}

static enum emit take_line(struct framing *f, char c)
{
        if (c == '\r')
                return go_in_header(f, HEAD_LF);
        if (c == ' ' || c == '\t')
                return fail(f, FRAMING_FOLDED);
        if (!f->in_trailers && is_head_full(f, HEADER_COST))
                return fail(f, FRAMING_HEAD);
        f->word_size = f->value_size = 0;
        f->state = NAME;
        return take_name(f, c);
}

static enum emit take_value(struct framing *f, char c)
{
        if (f->is_length && c != '\n' && !is_length_byte(f, c))
                return fail(f, FRAMING_LENGTH);
        if (is_cookie_full(f, c))
                return fail(f, FRAMING_HEAD);
        if (c == '\r')
                return go_in_header(f, VALUE_LF);
        if (c == '\n')
                return fail(f, FRAMING_LINE_END);
        if (!is_text(c))
                return fail(f, FRAMING_CONTROL);
        if (f->value_size < sizeof(f->value) && (f->value_size > 0 || !is_one_of(" \t", c)))
                f->value[f->value_size++] = c;
        return f->drops_blanks && is_one_of(" \t", c) ? NOTHING : of_header(f);
}

static enum emit take_value_lf(struct framing *f, char c)
{
        enum framing_fault fault = c == '\n' ? end_header(f) : FRAMING_LINE_END;

        return fault ? fail(f, fault) : go_in_header(f, LINE);
}

static enum emit take_head_lf(struct framing *f, char c)
{
        if (c != '\n')
                return fail(f, FRAMING_LINE_END);
        if (!f->in_trailers)
                return end_head(f);
        f->in_trailers = 0;
        return go(f, f->side == FRAMING_REQUESTS ? BEFORE : RAW, LINE_END);
}

/* -- chunks --------------------------------------------------------------------------------------------------- */

static int hex_value(char c)
{
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
}

static enum emit take_size(struct framing *f, char c)
{
        int digit = hex_value(c);

        if (digit >= 0 && f->digits < 15) {
                f->left = f->left * 16 + (uint64_t)digit;
                f->digits++;
                return BYTE;
        }
        f->extension_bytes = 0;
        if (f->digits > 0 && c == ';')
                return go(f, EXTENSION, NOTHING);
        return f->digits > 0 && c == '\r' ? go(f, SIZE_LF, NOTHING) : fail(f, FRAMING_CHUNK);
}

static enum emit take_extension(struct framing *f, char c)
{
        if (c == '\r')
                return go(f, SIZE_LF, NOTHING);
        return is_text(c) && ++f->extension_bytes <= EXTENSION_MAX ? NOTHING : fail(f, FRAMING_CHUNK_EXTENSION);
}

static enum emit take_size_lf(struct framing *f, char c)
{
        if (c != '\n')
                return fail(f, FRAMING_CHUNK);
        f->in_trailers = f->left == 0;
        return go(f, f->left == 0 ? LINE : DATA, LINE_END);
}

static enum emit take_data_cr(struct framing *f, char c)
{
        return c == '\r' ? go(f, DATA_LF, NOTHING) : fail(f, FRAMING_CHUNK_END);
}

static enum emit take_data_lf(struct framing *f, char c)
{
        f->digits = 0;
        return c == '\n' ? go(f, SIZE, LINE_END) : fail(f, FRAMING_CHUNK_END);
}

/* -- the filter ----------------------------------------------------------------------------------------------- */

static enum emit (*const takers[])(struct framing *f, char c) = {
        [BEFORE] = take_before,     [BEFORE_LF] = take_before_lf, [FIRST] = take_first,
        [FIRST_LF] = take_first_lf, [LINE] = take_line,           [NAME] = take_name,
        [VALUE] = take_value,       [VALUE_LF] = take_value_lf,   [HEAD_LF] = take_head_lf,
        [SIZE] = take_size,         [EXTENSION] = take_extension, [SIZE_LF] = take_size_lf,
        [DATA_CR] = take_data_cr,   [DATA_LF] = take_data_lf,
};

/* Text that makes the parser finish a faulty message, by state: the head ends and is refused;
 * later, a line that is neither a chunk size nor a trailer. */
static const char *poison_of(const struct framing *f)
{
        static const char *const first[] = {"? / HTTP/1.0\r\n\r\n", "? HTTP/1.0\r\n\r\n",
                                            " HTTP/1.0\r\n\r\n"}; /* by part */
        static const char *const ends[] = {
                [FIRST_LF] = "\n\r\n", [LINE] = "\r\n",       [NAME] = "?:\r\n\r\n",
                [VALUE] = "\r\n\r\n",  [VALUE_LF] = "\n\r\n", [HEAD_LF] = "\n",
        };

        if (f->in_trailers || f->state >= BODY)
                return "Z\r\n\r\n";
        if (f->state < FIRST_LF)
                return first[f->state == FIRST ? f->part : 0];
        if (f->state == VALUE && f->is_length && f->value_size <= 1) /* its first digit may not have passed */
                return "0\r\n\r\n";
        return f->state == NAME && f->word_size == 0 ? ends[LINE] : ends[f->state];
}

static size_t pass_body(struct framing *f, char *to, const char *from, size_t size)
{
        size = size < f->left ? size : (size_t)f->left;
        memmove(to, from, size);
        f->left -= size;
        if (f->left == 0)
                f->state = f->state == DATA ? DATA_CR : f->side == FRAMING_REQUESTS ? BEFORE : RAW;
        return size;
}

static size_t emit_byte(char *to, enum emit emit, char c)
{
        if (emit == BYTE)
                to[0] = c;
        else if (emit == LINE_END)
                memcpy(to, "\r\n", 2);
        return emit;
}

size_t framing_filter(struct framing *f, char *bytes, size_t at, size_t size, size_t room)
{
        size_t out = 0, end = at + size;

        while (at < end && !f->fault) {
                if (f->state == RAW) {
                        memmove(bytes + out, bytes + at, end - at);
                        f->raw_bytes += end - at;
                        return out + end - at;
                }
                if (f->state == BODY || f->state == DATA) {
                        size_t n = pass_body(f, bytes + out, bytes + at, end - at);

                        at += n;
                        out += n;
                        continue;
                }
                out += emit_byte(bytes + out, takers[f->state](f, bytes[at]), bytes[at]);
                at++;
        }
        if (f->fault && !f->is_poisoned) {
                f->is_poisoned = 1;
                framing_keep(f, poison_of(f), strlen(poison_of(f)));
        }
        return out + framing_rest(f, bytes + out, room - out);
}

size_t framing_rest(struct framing *f, char *bytes, size_t room)
{
        size_t size = f->rest_size < room ? f->rest_size : room;

        memcpy(bytes, f->rest, size);
        f->rest_size -= size;
        memmove(f->rest, f->rest + size, f->rest_size);
        return size;
}

/* Append to the kept bytes. There is always room: a fault ends all output, and at most an LF is
 * kept before it. */
void framing_keep(struct framing *f, const char *bytes, size_t size)
{
        memcpy(f->rest + f->rest_size, bytes, size);
        f->rest_size += size;
}

/* -- life ----------------------------------------------------------------------------------------------------- */

void framing_init(struct framing *f, enum framing_side side)
{
        *f = (struct framing){.side = side, .state = BEFORE};
}

int framing_holds(const struct framing *f)
{
        return f->state == SIZE_LF || f->state == DATA_LF || (f->state == HEAD_LF && f->in_trailers);
}

int framing_resume(struct framing *f)
{
        if (f->state != RAW)
                return 0;
        if (f->raw_bytes > 0)
                return -1;
        f->state = BEFORE;
        return 0;
}

const char *framing_message(enum framing_fault fault)
{
        static const char *const messages[] = {[FRAMING_SOUND] = "",
#define FAULT(symbol, message) [FRAMING_##symbol] = message,
                                               FRAMING_FAULTS(FAULT)
#undef FAULT
        };

        return messages[fault];
}
