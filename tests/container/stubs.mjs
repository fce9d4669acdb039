// As much of a Durable Object with a container as the genuine Sandbox classes touch; the container is a base URL.
export class RpcTarget {}
export class WorkerEntrypoint {}
export class DurableObject {}
export const tracing = undefined;

class Storage {
        #values = new Map();
        get = async (key) => structuredClone(this.#values.get(key));
        put = async (key, value) => void this.#values.set(key, structuredClone(value));
        delete = async (key) => this.#values.delete(key);
        list = async () => new Map(this.#values);
        transaction = async (work) => work(this);
}

// The response that fetch() of a Worker returns for an upgrade, also for one that is refused.
async function upgrade(url) {
        const socket = new globalThis.WebSocket(url.replace(/^http/, "ws"));
        socket.binaryType = "arraybuffer";
        socket.accept = () => socket.resume();
        const isOpen = await new Promise((resolve) => {
                socket.addEventListener("open", () => {
                        socket.pause(); // nothing is delivered before accept()
                        resolve(true);
                });
                socket.addEventListener("error", () => resolve(false));
        });
        if (!isOpen) return fetch(url);
        return { status: 101, ok: false, statusText: "", webSocket: socket, headers: new Headers() };
}

export class Container {
        envVars = {};
        constructor(ctx, env) {
                this.ctx = ctx;
                this.env = env;
        }
        getState = async () => ({ status: "healthy", lastChange: 0 });
        renewActivityTimeout() {}
        async startAndWaitForPorts() {}
        async stop() {}
        async destroy() {}
        async containerFetch(what, init) {
                const request = what instanceof Request ? what : undefined;
                const url = new URL(request ? request.url : what);
                const target = this.env.baseUrl + url.pathname + url.search;
                const headers = new Headers(request ? request.headers : init?.headers);
                if (headers.get("Upgrade") === "websocket") return upgrade(target);
                if (!request) return fetch(target, init);
                const body = ["GET", "HEAD"].includes(request.method) ? undefined : await request.arrayBuffer();
                return fetch(target, { method: request.method, headers, body, signal: request.signal });
        }
        fetch(request) {
                return this.containerFetch(request);
        }
}
export class ContainerProxy {}
export const switchPort = (request) => request;
export const getContainer = (namespace, id) => namespace.get(id);

/** A namespace for getSandbox(): one object of that class for every id, all with the same base URL. */
export function namespaceOf(Sandbox, baseUrl, env = {}) {
        const objects = new Map();
        return {
                get(id) {
                        if (!objects.has(id)) {
                                const ctx = {
                                        id: { toString: () => id },
                                        storage: new Storage(),
                                        blockConcurrencyWhile: (work) => (this.ready = work()),
                                        waitUntil() {},
                                        container: { running: true, getTcpPort: () => ({ fetch }) },
                                };
                                objects.set(id, new Sandbox(ctx, { baseUrl, ...env }));
                        }
                        return objects.get(id);
                },
        };
}

// As much of a bucket of R2 as a backup needs.
class Bucket {
        #objects = new Map();
        put = async (key, value) => void this.#objects.set(key, Buffer.from(await new Response(value).arrayBuffer()));
        get = async (key) => {
                const bytes = this.#objects.get(key);
                return bytes && { size: bytes.length, body: new Blob([bytes]).stream(), arrayBuffer: async () => new Uint8Array(bytes).buffer, json: async () => JSON.parse(bytes.toString()) };
        };
        head = async (key) => this.#objects.has(key) ? { size: this.#objects.get(key).length } : null;
        delete = async (key) => void this.#objects.delete(key);
        list = async () => ({ objects: [] });
}

/** The environment for backups. */
export function bucket() {
        globalThis.FixedLengthStream ??= class { constructor() { return new TransformStream(); } }; // of the platform
        return { BACKUP_BUCKET: new Bucket(), BACKUP_BUCKET_NAME: "b", CLOUDFLARE_ACCOUNT_ID: "0", R2_ACCESS_KEY_ID: "k", R2_SECRET_ACCESS_KEY: "s" };
}
