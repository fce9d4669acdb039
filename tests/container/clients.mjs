// The genuine packages, from the directory genuine.py installed them into, and helpers for the tests of both.
import { strict as assert } from "node:assert";
import { createRequire, register } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

register("./hooks.mjs", import.meta.url);
export const baseUrl = process.env.CONTAINER_URL;
const modules = process.env.CONTAINER_CLIENTS;
globalThis.WebSocket = createRequire(join(modules, "x.js"))("ws"); // Node 20 has none of its own

for (const level of ["log", "info", "debug", "warn", "error"]) if (!process.env.VERBOSE) console[level] = () => {}; // they are talkative

export const load = (path) => import(pathToFileURL(join(modules, "node_modules", path)).href);
export const old = (name) => load(`sandbox-0.3/dist/${name}.js`);
export const newest = () => load("sandbox-0.12/dist/index.js");

/** All events of a stream of SSE. */
export async function events(parse, stream, until = () => false) {
        const seen = [];
        for await (const event of parse(stream)) {
                seen.push(event);
                if (until(event)) break;
        }
        return seen;
}

export const text = (seen, type = "stdout") => seen.filter((event) => event.type === type).map((event) => event.data).join("");

export async function rejects(promise, pattern) {
        try {
                await promise;
        } catch (error) {
                assert.match(`${error.name}: ${error.message}`, pattern);
                return error;
        }
        assert.fail(`was not refused, expected ${pattern}`);
}

/** A small web server for the inside of a sandbox. */
export const server = (port) =>
        `exec python3 -c 'import http.server as h
class H(h.BaseHTTPRequestHandler):
    def do_GET(self):
        body = ("port ${port} " + self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
h.HTTPServer(("127.0.0.1", ${port}), H).serve_forever()'`;
