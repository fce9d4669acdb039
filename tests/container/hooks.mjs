// stubs.mjs has the modules of their platform that the genuine clients import.
const stubs = new Set(["cloudflare:workers", "@cloudflare/containers"]);

export async function resolve(specifier, context, next) {
        if (stubs.has(specifier)) return { url: new URL("stubs.mjs", import.meta.url).href, shortCircuit: true };
        return next(specifier, context);
}
