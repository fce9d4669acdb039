'use strict'
// The JavaScript agent is main.cjs. This file and old.cjs are in the JavaScript of any Node: one that is too old has to say so.
const LEAST = 18

if (parseInt(process.versions.node, 10) >= LEAST) require('./main.cjs')
else require('./old.cjs')(LEAST)
