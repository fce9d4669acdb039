require('http').createServer((_, answer) => answer.end('hello')).listen(3000)
