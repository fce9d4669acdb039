// The examples with the genuine packages; CLIENT selects one.
import { after } from "node:test";
import { baseUrl, newest, old } from "./clients.mjs";
import { examples } from "./examples.mjs";
import { bucket, namespaceOf } from "./stubs.mjs";

const isNew = process.env.CLIENT === "0.12";
const { Sandbox, getSandbox, parseSSEStream, streamFile, collectFile } = isNew ? await newest() : await old("index");
const overSocket = process.env.TRANSPORT === "websocket";
const name = `walk-${isNew ? "new" : "old"}${overSocket ? "-socket" : ""}`;
const transport = overSocket ? { SANDBOX_TRANSPORT: "websocket" } : {};
const opened = [];

async function open(id, more) {
        const namespace = namespaceOf(Sandbox, baseUrl, { ...more, ...transport });
        opened.push(namespace.get(id));
        await namespace.ready;
        return getSandbox(namespace, id);
}

const canUnpack = process.env.CAN_UNPACK === "1";
// Over a WebSocket interpreter.test.mjs runs code in every way.
const hasAnalysis = !overSocket || process.env.CLOCHE_TEST_ALL === "1";
examples({ sandbox: await open(name), name, isNew, hasAnalysis, parseSSEStream, streamFile, collectFile, backups: isNew && canUnpack ? () => open(`${name}-backups`, bucket()) : undefined });
after(() => opened.forEach(({ client }) => client?.disconnect?.()));
