/* Questions for names, and answers to them. */
#include "helpers/egress/read/dns.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char normal[HOST_NAME_MAX_BYTES + 1];
        unsigned char out[DNS_MESSAGE_MAX];
        struct dns_question question;
        const uint32_t address = 0xc6120001;
        int code = dns_read(data, size, &question);
        size_t n;

        if (code < 0)
                return 0;
        if (question.is_host &&
            (host_name(question.name, strlen(question.name), normal) < 0 || strcmp(question.name, normal) != 0))
                abort();
        n = dns_write(&question, (enum dns_code)code, code == DNS_OK ? &address : NULL, 60, out);
        if (n < 12 || n > DNS_MESSAGE_MAX || !(out[2] & 0x80) || (out[3] & 15) != code)
                abort();
        return 0;
}
