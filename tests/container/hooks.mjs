// What the genuine clients import of the platform they are written for stands in stubs.mjs.
const stubs = new Set(["cloudflare:workers", "@cloudflare/containers"]);

export async function resolve(specifier, context, next) {
        if (stubs.has(specifier)) return { url: new URL("stubs.mjs", import.meta.url).href, shortCircuit: true };
        return next(specifier, context);
}
