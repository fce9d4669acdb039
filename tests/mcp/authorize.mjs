// Give each request of a program the token of the daemon: node --import authorize.mjs PROGRAM.
import http from "node:http";
import { createRequire } from "node:module";

const header = { authorization: `Bearer ${process.env.MCP_TOKEN}` };
const { Agent, setGlobalDispatcher } = createRequire(process.argv[1])("undici"); // which fetch uses too
const add = (dispatch) => (options, handler) => dispatch({ ...options, headers: Array.isArray(options.headers) ? [...options.headers, "authorization", header.authorization] : { ...options.headers, ...header } }, handler);
setGlobalDispatcher(new Agent().compose(add));
const { request } = http;
http.request = (options, ...rest) => request({ ...options, headers: { ...options.headers, ...header } }, ...rest);
