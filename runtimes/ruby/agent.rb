# frozen_string_literal: true

# Cloche's Ruby agent: answers requests on descriptor 3 (spec/agent.md).
#
# This file only loads its parts. They live in one module whose name is removed after loading: the
# user's code sees none of the agent's constants, and the parts find each other by lexical scope. No
# local variable may be left here: the user's code runs on this top level.
module ClocheAgent
  Agent = self
  FOLDER = __dir__
  # Ruby's own classes, safe from redefinition by the user's code.
  Object.constants.each { |name| const_set(name, Object.const_get(name)) unless Object.autoload?(name) || name == :ClocheAgent }
  ISEQ = RubyVM::InstructionSequence

  # Ruby's functions (raise, loop, eval) as they are now: a user's `def format` at the top level is
  # a method of every object.
  module Own
    Kernel.private_instance_methods(false).each do |name|
      define_method(name, Kernel.instance_method(name))
      private name
    end
  end

  # Each part is read now, and run on first use: by then the user may have used up all descriptors.
  PARTS = %w[pristine border channel json_text values rare evident signature call hooks errors serve bridge template
             cells contexts displays formats shell commands names looks packages unused].to_h do |name|
    path = "#{FOLDER}/#{name}.rb"
    [name, [path, File.read(path), File.exist?("#{path}.iseq") ? File.binread("#{path}.iseq") : nil]]
  end

  class << self
    include Own

    def part(name)
      files = PARTS.delete(name) or return
      Object.const_set(:ClocheAgent, self)
      compiled(*files).eval
    ensure
      Object.__send__(:remove_const, :ClocheAgent) if files
    end

    # The output of precompile.rb is valid if this very Ruby made it, of this very text: compiling
    # takes as long as Ruby's own start.
    def compiled(path, text, binary)
      if binary && made_for(binary) == RUBY_DESCRIPTION.b + text.b
        ISEQ.load_from_binary(binary)
      else
        ISEQ.compile(text, path, path, 1)
      end
    end

    def made_for(binary)
      ISEQ.load_from_binary_extra_data(binary)
    rescue RuntimeError
      nil # made by another version
    end
  end

  Object.__send__(:remove_const, :ClocheAgent)
  %w[pristine border channel json_text values signature call hooks serve].each { |name| part(name) }
  Serve.main
end
