/* The JSON of images and their lists of users: the first byte, 0 to 4, chooses the reader. */
#include "helpers/image/read/accounts.h"
#include "helpers/image/read/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_index(const char *text, size_t size)
{
        struct image_index index;
        const struct descriptor *row;
        struct cloche_err e;

        if (image_index_read(text, size, &index, &e) == 0) {
                if (image_index_choose(&index, NULL, "amd64", &row, &e) == 0 && row->kind == DESCRIPTOR_OTHER)
                        abort();
                if (image_index_choose(&index, "v1", "amd64", &row, &e) == 0 && !row->tag)
                        abort();
        }
        image_index_done(&index);
}

static void read_manifest(const char *text, size_t size)
{
        struct image_manifest manifest;
        struct cloche_err e;

        if (image_manifest_read(text, size, &manifest, &e) == 0)
                for (size_t i = 0; i < manifest.layer_count; i++)
                        if (manifest.layers[i].size < 0 || !hash_is_text(manifest.layers[i].hex, 64))
                                abort();
        image_manifest_done(&manifest);
}

static void read_docker(const char *text, size_t size)
{
        struct docker_manifest manifest;
        const struct docker_image *image;
        struct cloche_err e;

        if (docker_manifest_read(text, size, &manifest, &e) == 0 &&
            docker_manifest_choose(&manifest, "v1", &image, &e) == 0 && (!image->config || image->layer_count > 500))
                abort();
        docker_manifest_done(&manifest);
}

static void read_config(const char *text, size_t size)
{
        struct image_config config;
        struct cloche_err e;

        if (image_config_read(text, size, &config, &e) == 0 &&
            image_config_check(&config, "amd64", config.diff_id_count, &e) == 0 && !json_is_object(config.kept))
                abort();
        image_config_done(&config);
}

static void read_accounts(const char *text, size_t size)
{
        text = size ? text : NULL; /* as of a file that cannot be read */
        struct account account, same;
        uint32_t gid;

        for (uint32_t uid = 0; uid < 3; uid++)
                if (account_find(text, size, NULL, uid, &account) &&
                    (account.uid != uid || account.gid == UINT32_MAX || strlen(account.name) >= sizeof(account.name) ||
                     !account_find(text, size, account.name, 0, &same) || strcmp(same.name, account.name) != 0))
                        abort();
        if (account_find(text, size, "app", 0, &account) && strcmp(account.name, "app") != 0)
                abort();
        if (account_find_group(text, size, "app", &gid) && gid == UINT32_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void (*const readers[])(const char *text, size_t size) = {read_index, read_manifest, read_docker,
                                                                         read_config, read_accounts};
        char *text = size ? malloc(size) : NULL;

        if (!text)
                return 0;
        memcpy(text, data + 1, size - 1);
        readers[(data[0] + 2u) % 5](text, size - 1);
        free(text);
        return 0;
}
