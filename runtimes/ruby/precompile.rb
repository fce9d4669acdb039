# frozen_string_literal: true

# precompile.rb FOLDER: writes NAME.rb.iseq beside each part of the agent, for the Ruby that runs
# this (agent.rb has the conditions). The paths are those of a box, where the parts will be.
folder = ARGV.fetch(0)
Dir.children(folder).grep(/\.rb\z/).sort.each do |name|
  next if %w[agent.rb notebook.rb precompile.rb].include?(name)
  text = File.read("#{folder}/#{name}")
  compiled = RubyVM::InstructionSequence.compile(text, "/run/cloche/#{name}", "/run/cloche/#{name}", 1)
  File.binwrite("#{folder}/#{name}.iseq", compiled.to_binary(RUBY_DESCRIPTION.b + text.b))
end
