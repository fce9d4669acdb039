'use strict'
// Loaded before the agent: makes this Node report an old version.
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '12.22.12' } })
