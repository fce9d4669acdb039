/* Sizes and durations in human form. Runs in: the command line, as its user. */
#ifndef CLOCHE_CLI_OPTIONS_QUANTITY_H
#define CLOCHE_CLI_OPTIONS_QUANTITY_H

/* "1.5G", "512M"; a number alone counts units of plain_bytes. 0, or -1: not a size. */
int quantity_bytes(const char *text, double plain_bytes, double *ret_bytes);
/* "5s", "500ms", "1m30s", "2h"; a number alone is seconds. 0, or -1: not a duration. */
int quantity_ms(const char *text, double *ret_ms);

#define QUANTITY_TEXT_BYTES 40
/* Format in the largest unit that gives a whole number: "8M", "64K"; "1ms", "1d". */
const char *quantity_bytes_text(double bytes, char ret[QUANTITY_TEXT_BYTES]);
const char *quantity_ms_text(double ms, char ret[QUANTITY_TEXT_BYTES]);

#endif
