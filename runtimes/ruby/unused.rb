# frozen_string_literal: true

module ClocheAgent
  # Finds the class that arguments were probably meant for, in code without a function. Loaded on first use.
  module Unused
    extend Own

    KINDS = {CLASS: "class", MODULE: "module"}.freeze
    DEFINITIONS = %i[DEFN DEFS LASGN GASGN IASGN CDECL BEGIN].freeze
    LOADING = %i[require require_relative load include using].freeze
    NAMES = %i[args kwargs].freeze
    TREE = RubyVM::AbstractSyntaxTree

    class << self
      # Its name and the way out, if the code only defines things and ignores its arguments; else nil.
      def by(code)
        found = nil
        statements(TREE.parse(code)).each do |node|
          if KINDS.key?(node.type) then found = node
          elsif !definition?(node) || reads?(node) then return
          end
        end
        found && described(KINDS[found.type], name_of(found.children[0]))
      end

      private

      def statements(root)
        body = root.children.last
        return [] unless TREE::Node === body
        (body.type == :BLOCK ? body.children : [body]).grep(TREE::Node)
      end

      def definition?(node)
        DEFINITIONS.include?(node.type) || node.type == :FCALL && LOADING.include?(node.children[0])
      end

      # Bodies of methods do not see the variables of the top level.
      def reads?(node)
        return false unless TREE::Node === node && !%i[DEFN DEFS].include?(node.type)
        %i[VCALL LVAR DVAR].include?(node.type) && NAMES.include?(node.children[0]) || node.children.any? { |child| reads?(child) }
      end

      # "Shop::Cart"
      def name_of(path)
        outer = path.children[0]
        TREE::Node === outer ? "#{name_of(outer)}::#{path.children[-1]}" : path.children[-1].to_s
      end

      def described(kind, name)
        way_out = kind == "class" ? "name #{name}.new as the function, or define a function that uses it" : "name one of its functions, #{name}.NAME"
        "the #{kind} #{name}: #{way_out}"
      end
    end
  end
end
