/* Every file of the directories named, through the fuzzer's function once: a corpus as an ordinary test. TAP. */
#include "tap.h"

#include <dirent.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
        FILE *file = fopen(path, "rb");
        uint8_t *data = malloc(1 << 20);
        size_t size = file && data ? fread(data, 1, 1 << 20, file) : 0;

        if (CHECK(file && data, "%s", path))
                LLVMFuzzerTestOneInput(data, size);
        if (file)
                fclose(file);
        free(data);
}

int main(int argc, char **argv)
{
        char path[4096];

        for (int i = 1; i < argc; i++) {
                DIR *dir = opendir(argv[i]);

                CHECK(dir != NULL, "%s is a directory", argv[i]);
                for (struct dirent *entry; dir && (entry = readdir(dir));) {
                        snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
                        if (entry->d_name[0] != '.')
                                replay(path);
                }
                if (dir)
                        closedir(dir);
        }
        return tap_done();
}
