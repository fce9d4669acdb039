require 'sinatra'
get('/') { 'hello' }
