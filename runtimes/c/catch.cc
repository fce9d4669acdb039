// The parts that need C++: catching exceptions, and flushing its streams. A library of its own,
// loaded after the user's code: the agent must not load the C++ library itself, because code may
// replace operator new, and images without C++ have none.
#include <cstdio>
#include <cstring>
#include <cxxabi.h>
#include <exception>
#include <iostream>
#include <string>
#include <typeinfo>

extern "C" {

struct native_caught {
        char type[256];
        char message[2048];
};

__attribute__((visibility("default"))) int cloche_native_catch(void (*work)(void *), void *data, native_caught *ret);
__attribute__((visibility("default"))) void cloche_native_flush();

static void set(native_caught *ret, const char *message)
{
        const std::type_info *type = abi::__cxa_current_exception_type();
        int status = 0;
        char *name = type ? abi::__cxa_demangle(type->name(), nullptr, nullptr, &status) : nullptr;

        std::snprintf(ret->type, sizeof(ret->type), "%s", name ? name : type ? type->name() : "unknown");
        std::snprintf(ret->message, sizeof(ret->message), "%s", message);
        std::free(name);
}

int cloche_native_catch(void (*work)(void *), void *data, native_caught *ret)
{
        try {
                work(data);
                return 0;
        } catch (abi::__forced_unwind &) {
                throw;
        } catch (const std::exception &e) {
                set(ret, e.what());
        } catch (const std::string &text) {
                set(ret, text.c_str());
                std::strcpy(ret->type, "std::string");
        } catch (const char *text) {
                set(ret, text ? text : "");
        } catch (bool value) {
                set(ret, value ? "true" : "false");
        } catch (char value) {
                const char text[] = {value, '\0'};

                set(ret, text);
        } catch (int value) {
                set(ret, std::to_string(value).c_str());
        } catch (unsigned value) {
                set(ret, std::to_string(value).c_str());
        } catch (long value) {
                set(ret, std::to_string(value).c_str());
        } catch (unsigned long value) {
                set(ret, std::to_string(value).c_str());
        } catch (double value) {
                set(ret, std::to_string(value).c_str());
        } catch (...) {
                set(ret, "an exception that says nothing about itself");
        }
        return 1;
}

void cloche_native_flush()
{
        try {
                std::cout.flush();
                std::cerr.flush();
                std::clog.flush();
        } catch (...) {
                // The user made streams throw; their output is lost with them.
        }
}
}
