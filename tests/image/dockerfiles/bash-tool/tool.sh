#!/bin/bash
echo "tool ${1-}"
