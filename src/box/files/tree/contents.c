/* Runs in: cloche-files, within a box, with its user's rights. */
#include "contents.h"

#include <string.h>
#include <strings.h>

static const struct {
        const char *bytes;
        size_t at, size;
        const char *type;
} beginnings[] = {
        {"\x89PNG\r\n\x1a\n", 0, 8, "image/png"},
        {"\xff\xd8\xff", 0, 3, "image/jpeg"},
        {"GIF87a", 0, 6, "image/gif"},
        {"GIF89a", 0, 6, "image/gif"},
        {"WEBP", 8, 4, "image/webp"},
        {"WAVE", 8, 4, "audio/wav"},
        {"ftyp", 4, 4, "video/mp4"},
        {"OggS", 0, 4, "audio/ogg"},
        {"ID3", 0, 3, "audio/mpeg"},
        {"%PDF-", 0, 5, "application/pdf"},
        {"\x1f\x8b", 0, 2, "application/gzip"},
        {"\x28\xb5\x2f\xfd", 0, 4, "application/zstd"},
        {"\xfd"
         "7zXZ\0",
         0, 6, "application/x-xz"},
        {"BZh", 0, 3, "application/x-bzip2"},
        {"\x7f"
         "ELF",
         0, 4, "application/x-executable"},
        {"\0asm", 0, 4, "application/wasm"},
        {"SQLite format 3\0", 0, 16, "application/vnd.sqlite3"},
        {"wOF2", 0, 4, "font/woff2"},
};

static const struct {
        const char *ending, *type;
} endings[] = {
        {".html", "text/html"},
        {".htm", "text/html"},
        {".css", "text/css"},
        {".csv", "text/csv"},
        {".md", "text/markdown"},
        {".js", "text/javascript"},
        {".mjs", "text/javascript"},
        {".cjs", "text/javascript"},
        {".ts", "text/typescript"},
        {".tsx", "text/typescript"},
        {".json", "application/json"},
        {".ipynb", "application/json"},
        {".xml", "application/xml"},
        {".yaml", "application/yaml"},
        {".yml", "application/yaml"},
        {".toml", "application/toml"},
        {".svg", "image/svg+xml"},
        {".py", "text/x-python"},
        {".c", "text/x-c"},
        {".h", "text/x-c"},
        {".sh", "text/x-shellscript"},
        {".txt", "text/plain"},
        {".log", "text/plain"},
        {".zip", "application/zip"},
        {".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
        {".jar", "application/java-archive"},
        {".whl", "application/zip"},
        {".tar", "application/x-tar"},
        {".parquet", "application/vnd.apache.parquet"},
        {".ico", "image/vnd.microsoft.icon"},
        {".bmp", "image/bmp"},
        {".mp3", "audio/mpeg"},
        {".webm", "video/webm"},
        {".woff", "font/woff"},
        {".woff2", "font/woff2"},
        {".ttf", "font/ttf"},
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},
        {".gif", "image/gif"},
        {".webp", "image/webp"},
        {".wav", "audio/wav"},
        {".mp4", "video/mp4"},
        {".ogg", "audio/ogg"},
        {".pdf", "application/pdf"},
        {".gz", "application/gzip"},
        {".tgz", "application/gzip"},
        {".zst", "application/zstd"},
        {".xz", "application/x-xz"},
        {".bz2", "application/x-bzip2"},
        {".wasm", "application/wasm"},
        {".sqlite", "application/vnd.sqlite3"},
        {".bin", "application/octet-stream"},
};

static const char *by_ending(const char *name)
{
        const char *dot = strrchr(name, '.');

        for (size_t i = 0; dot && i < sizeof(endings) / sizeof(endings[0]); i++)
                if (strcasecmp(dot, endings[i].ending) == 0)
                        return endings[i].type;
        return NULL;
}

/* A text type by name is ignored if the bytes are not text. */
static int is_type_of_text(const char *type)
{
        return strncmp(type, "text/", 5) == 0 || strcmp(type, "application/json") == 0;
}

const char *contents_type(const char *name, const void *data, size_t size, int is_text)
{
        const char *type = by_ending(name);

        if (type && (is_text || !is_type_of_text(type)))
                return type;
        for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
                if (size >= beginnings[i].at + beginnings[i].size &&
                    memcmp((const char *)data + beginnings[i].at, beginnings[i].bytes, beginnings[i].size) == 0)
                        return beginnings[i].type;
        if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0)
                return "application/zip";
        return is_text ? "text/plain" : "application/octet-stream";
}
