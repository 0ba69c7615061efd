/**
 * The page data: what viete/explore/data.py writes. Types only.
 *
 * @typedef {object} SymbolEntry
 * @property {string} kind  input, parameter, value, gradient, dimension or function
 * @property {string} math  MathML
 * @property {string | null} shape  MathML
 * @property {string} meaning
 * @property {number[]} made  numbers of the equations that define it
 * @property {number[]} used  numbers of the equations that read it
 * @property {string} [latex]
 *
 * @typedef {object} Equation
 * @property {number} number
 * @property {string} key  the symbol that it defines
 * @property {string} math
 * @property {string} latex
 * @property {string} meaning
 * @property {string} part
 * @property {{letter: string, lower: string, upper: string} | null} loop
 * @property {string[]} reads
 * @property {Record<string, string>} opened  a function call's definition with its arguments put in
 *
 * @typedef {object} Operand
 * @property {string | number | boolean | {operation: number} | {from: number} | {number: "inf" | "-inf" | "nan"}} value
 * @property {string[]} axes
 *
 * @typedef {object} Operation
 * @property {number} id
 * @property {string} op
 * @property {string} text  MathML
 * @property {Operand[]} operands
 * @property {string[]} axes
 * @property {string[]} over
 * @property {string} value  where its result stands among the values
 * @property {Record<string, number>} [sizes]
 * @property {import("./formula.js").Formula} [formula]  of the operands' entries
 * @property {string} [fold]  what becomes of the terms over `over`
 * @property {string} [call]  the named function whose definition opens
 * @property {number} [last]  the operation that a call's value is
 * @property {number} [within]  the call in whose definition it stands
 * @property {string} [at]  of a pick: the label of the axis on which a place is taken
 * @property {number} [first]
 * @property {string[]} [along]  of a concat
 * @property {string} [to]
 *
 * @typedef {object} Step
 * @property {number} equation
 * @property {string} member
 * @property {string} [math]  MathML of the member
 * @property {string} [equation_math]  the equation with the block put in
 * @property {Record<string, number>} block
 * @property {string[]} reads
 * @property {string} title
 * @property {string} why
 * @property {string} [of]  the value that a gradient belongs to
 * @property {Operation[]} operations
 *
 * @typedef {object} TermFamily  terms of one formula, a term for each value of its letters
 * @property {string} kind  term, constant or unopened
 * @property {string | null} label  MathML of what it is a term of
 * @property {string} formula  MathML
 * @property {[string, string, number | null][]} marks  the way to it: block, head, source
 * @property {{name: string, first: number, count: number, labels: string[] | string | null}[]} letters
 * @property {{equation: string, member: string, key: string, at: string[]} | null} off  what is put to 0 to switch it off
 * @property {Operation[]} operations
 * @property {TermFamily[]} [terms]  its own terms
 * @property {string} [within]  the function that these add up to the argument of
 *
 * @typedef {object} Line  of a step at one position: what a row is called, equal to, and comes to
 * @property {string} name
 * @property {string[]} rows
 * @property {string[]} numbers
 * @property {string} digits
 * @property {[string, string][]} decimals  a sign and what stands behind it
 * @property {string} note
 * @property {string} decimal_note  the note where numbers are decimals
 * @property {boolean} part  on the way to the step's value
 *
 * @typedef {object} LessonStep
 * @property {string} member
 * @property {string} why
 * @property {string} letters  what those of its lines stand for
 * @property {{title: string, lines: Line[]}[]} sides
 * @property {string} status
 *
 * @typedef {object} LessonPart
 * @property {string} title
 * @property {LessonStep[]} steps
 * @property {string[]} summary
 * @property {string[]} numbers  what kind its exact numbers are
 *
 * @typedef {object} Lesson  HTML
 * @property {string[]} intro
 * @property {string[]} numbers  how the numbers of its meaning are written
 * @property {string[]} matrices
 * @property {string[]} about  the model
 * @property {LessonPart[]} parts  the first is that of the tokens
 * @property {string[]} closing
 * @property {string[]} proven  what is certain of the numbers of its meaning
 * @property {string} meaning  in which its lines are, when they are not in decimals
 *
 * @typedef {{word: string, ok: boolean, refuted: boolean, claim: string, math: string, meaning: string, found: string}} Verdict  of a claim
 *
 * @typedef {object} Stored
 * @property {number[]} shape
 * @property {string[]} axes
 * @property {(string[] | string | null)[]} labels  words, vocabulary, or a list of names
 * @property {string | string[]} data
 * @property {(string | null)[]} [math]  MathML of the entries
 * @property {boolean} [whole]  whether the entries are whole numbers, such as token ids
 * @property {string} [symbol]  whose member a weight of one block is
 * @property {string} [name]  MathML of that member
 * @property {boolean} [more]
 *
 * @typedef {object} Choice
 * @property {string} name
 * @property {string} key  what its number is called in operations and in the program
 * @property {string} kind  number, or what it is of an equation: temperature, mask
 * @property {number | boolean} value  as the card has it
 * @property {number} [equation]
 * @property {string} [math]
 * @property {string} [latex]
 *
 * @typedef {object} Variant  what the page shows where choices of one equation are not as in the card
 * @property {string[]} choices
 * @property {Equation[]} equations  those that are other ones
 * @property {Equation[]} backward_equations
 * @property {Step[]} steps
 * @property {Step[]} backward
 * @property {number[]} [order]  numbers of all equations, where they are not those of the page
 *
 * @typedef {object} Switch  an input of the program that puts entries of an equation's value to 0
 * @property {number} equation
 * @property {string} input
 * @property {string[]} letters  of blocks, each of which has its own
 *
 * @typedef {object} DiagramLine  an equation of a box, or the term of it that the box stands for
 * @property {number} equation
 * @property {string} key
 * @property {string | null} shape  MathML
 * @property {string} story  what is done, in words
 * @property {string | null} term  MathML
 * @property {{letter: string, range: [string, string], meaning: string}[]} copies  the letters of a family
 *
 * @typedef {object} DiagramBox
 * @property {string} id
 * @property {string} title
 * @property {string} kind  input, value, sum or output
 * @property {string | null} group
 * @property {string[]} keys
 * @property {string[]} [reads]  MathML of names
 * @property {string[]} [gives]
 * @property {DiagramLine[][]} [rows]  equations that read the same stand in one row
 * @property {[number, number][]} [links]  which row is read by which
 *
 * @typedef {object} Diagram
 * @property {DiagramBox[]} boxes
 * @property {{from: string, to: string, keys: string[], stream: boolean, back: boolean, names: string[]}[]} arrows
 * @property {{id: string, letter: string, range: [string, string]}[]} groups
 *
 * @typedef {object} PageData
 * @property {number} format
 * @property {string} title
 * @property {string[]} about
 * @property {Record<string, SymbolEntry>} symbols
 * @property {string} document
 * @property {Equation[]} equations
 * @property {Step[]} steps
 * @property {Step[]} backward
 * @property {Equation[]} [backward_equations]
 * @property {string | null} [differentiated]  MathML
 * @property {Record<string, number>} dimensions
 * @property {Choice[]} choices
 * @property {{ids: number[], words: string[], vocabulary: string[] | null, input?: string, targets?: string | null, scores?: string | null, next?: boolean, text?: boolean}} tokens
 * @property {{name: string, title: string}[]} meanings
 * @property {Record<string, Record<string, Stored>>} values
 * @property {{source: string, variants: Variant[], switches: Switch[], trains: boolean, parameters: Record<string, Stored>} | null} program
 * @property {Diagram | null} diagram
 * @property {{members: string[], packed: string, off: string[]}} [expansions]  of the entries of values, compressed; the symbols that may be switched off
 * @property {Lesson | null} lesson
 * @property {{verdicts: Verdict[], notes: string[]} | null} [claims]
 * @property {{values: number, left_out: string[]}} limits
 * @property {{address: string, token: string} | null} server
 * @property {boolean} [features]  whether a graph of features can be had
 *
 * @typedef {object} Model  what anywidget hands to render
 * @property {(name: string) => any} get
 * @property {(name: string, value: any) => void} [set]
 * @property {(name: string, heard: (...args: any[]) => void) => void} [on]
 * @property {(message: any) => void} [send]
 *
 * @typedef {object} State
 * @property {"forward" | "backward"} direction
 * @property {number} step  -1: before the first; as many as there are: after the last
 * @property {string} meaning
 * @property {string | null} looked  the member in the values pane; null: that of the step
 * @property {{member: string, at: number[]} | null} entry
 * @property {string | null} symbol  the symbol that is lit up
 * @property {Record<string, string>} views  the view chosen for a member
 * @property {number} revision  grows when the numbers change
 * @property {{equation: string, key: string}[]} put  equations put in, such as A^{1,2} = 0, and the symbol they change
 * @property {string} note  what a reader is told, politely
 */

export {};
