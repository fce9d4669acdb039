export { createSandbox } from './sandbox.js'
export type * from './types.js'
export * from '../safe-fetch/index.js'
