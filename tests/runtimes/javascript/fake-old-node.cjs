'use strict'
// Loaded before the agent: this Node says that it is an old one.
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '12.22.12' } })
