/** Reads what the npm package exports: names, types and comments, from the files in `src/sdk/package`. */
import { join } from "node:path";
import ts from "typescript-5";
import { packageSubpaths } from "../../src/cli/package-build.ts";

export interface Subpath {
  readonly name: string;
  /** The opening comment of the subpath's file. */
  readonly about: string;
  readonly exports: readonly Exported[];
}

export interface Exported {
  readonly name: string;
  readonly about: string;
  /** The signature in TypeScript; null for a class or an interface, whose members are listed. */
  readonly signature: string | null;
  readonly members: readonly Member[];
  /** The names of exported interfaces from which it inherits members. */
  readonly bases: readonly string[];
}

export interface Member {
  readonly name: string;
  readonly type: string;
  readonly isOptional: boolean;
  /** The text of the tag `@default` in the comment; null without this tag. */
  readonly fallback: string | null;
  readonly about: string;
}

const options: ts.CompilerOptions = {
  allowImportingTsExtensions: true,
  module: ts.ModuleKind.ESNext,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  noEmit: true,
  noLib: true,
  types: [],
};

/** Resolves only files of the repository: the types of other packages are printed as they are written. */
function programOf(files: readonly string[]): ts.Program {
  const host = ts.createCompilerHost(options);
  host.resolveModuleNameLiterals = (literals, importer) =>
    literals.map(({ text }) => ({
      resolvedModule: text.startsWith(".")
        ? { resolvedFileName: join(importer, "..", text), extension: ".ts" }
        : undefined,
    }));
  return ts.createProgram(files, options, host);
}

export function readSubpaths(): Subpath[] {
  const names = packageSubpaths();
  const fileOf = (name: string): string => `src/sdk/package/${name}.ts`;
  const program = programOf(names.map(fileOf));
  const checker = program.getTypeChecker();
  return names.map((name): Subpath => {
    const file = program.getSourceFile(fileOf(name));
    const module = file && checker.getSymbolAtLocation(file);
    if (file === undefined || module === undefined) throw new Error(`${fileOf(name)} exports nothing`);
    const [, about = ""] = /^\/\*\*(.*?)\*\//s.exec(file.text) ?? [];
    const symbols = checker.getExportsOfModule(module);
    const exported = new Set(symbols.map((symbol) => symbol.name));
    const exports = symbols.map((symbol) =>
      exportedBy({ symbol: checker.getAliasedSymbol(symbol), checker, exported }, symbol.name),
    );
    return {
      name,
      about: textOf(about),
      exports: exports.toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    };
  });
}

interface Found {
  readonly symbol: ts.Symbol;
  readonly checker: ts.TypeChecker;
  /** The names that the same file exports. */
  readonly exported: ReadonlySet<string>;
}

function exportedBy(found: Found, name: string): Exported {
  const [declaration, ...overloads] = found.symbol.declarations ?? [];
  if (declaration === undefined) throw new Error(`${name} has no declaration`);
  const about = aboutOf(declaration);
  if (ts.isInterfaceDeclaration(declaration) || ts.isClassDeclaration(declaration)) {
    const all = basesOf(declaration);
    // The methods of a Durable Object form the protocol between versions, and are not a public API.
    const isObject = all.some((base) => base.getText() === "DurableObject");
    if (isObject) return { name, about, signature: null, members: [], bases: [] };
    const hidden = all.filter((base) => !found.exported.has(base.getText()));
    const inherited = hidden.flatMap((base) => inheritedFrom(base, found.checker));
    const members = [...membersOf(declaration), ...inherited];
    const bases = all.map((base) => base.getText()).filter((base) => found.exported.has(base));
    return { name, about, signature: null, members, bases };
  }
  const signatures = ts.isFunctionDeclaration(declaration)
    ? [declaration, ...overloads].filter((each) => overloads.length === 0 || !hasBody(each))
    : [declaration];
  const signature = signatures.map((each) => signatureOf(each, name)).join("\n");
  return { name, about, signature, members: [], bases: [] };
}

const hasBody = (declaration: ts.Declaration): boolean =>
  ts.isFunctionDeclaration(declaration) && declaration.body !== undefined;

/** The signature as it stands in the source, which oxfmt has formatted. */
function signatureOf(declaration: ts.Declaration, name: string): string {
  if (ts.isFunctionDeclaration(declaration)) {
    const { body } = declaration;
    return `${declaration
      .getText()
      .slice(0, body && -body.getText().length)
      .trimEnd()
      .replace(/;$/, "")};`;
  }
  if (ts.isTypeAliasDeclaration(declaration)) return declaration.getText();
  if (ts.isVariableDeclaration(declaration) && declaration.type !== undefined) {
    return `export const ${name}: ${declaration.type.getText()};`;
  }
  throw new Error(`expected a class, an interface, a function, a type, or a value of a stated type, got ${name}`);
}

function basesOf({ heritageClauses }: ts.InterfaceDeclaration | ts.ClassDeclaration): ts.Expression[] {
  return [...(heritageClauses ?? [])].flatMap(({ types }) => types.map(({ expression }) => expression));
}

/** The members that are inherited from an interface that the package does not export. */
function inheritedFrom(base: ts.Expression, checker: ts.TypeChecker): Member[] {
  const symbol = checker.getSymbolAtLocation(base);
  const isImported = symbol !== undefined && (symbol.flags & ts.SymbolFlags.Alias) !== 0;
  const declared = isImported ? checker.getAliasedSymbol(symbol) : symbol;
  return (declared?.declarations ?? []).filter(ts.isInterfaceDeclaration).flatMap(membersOf);
}

function membersOf(declaration: ts.InterfaceDeclaration | ts.ClassDeclaration): Member[] {
  const members = [...declaration.members];
  return members.flatMap((member): Member[] => {
    const { name } = member;
    const isShown =
      name !== undefined &&
      !ts.isPrivateIdentifier(name) &&
      (ts.isPropertySignature(member) ||
        ts.isMethodSignature(member) ||
        ts.isPropertyDeclaration(member) ||
        ts.isMethodDeclaration(member));
    if (!isShown) return [];
    const type =
      ts.isMethodSignature(member) || ts.isMethodDeclaration(member)
        ? `(${member.parameters.map(sourceOf).join(", ")}) => ${sourceOf(member.type)}`
        : sourceOf(member.type);
    // The type `never` marks an option that another option excludes.
    if (type === "never" || type === "") return [];
    return [
      {
        name: name.getText(),
        type: type.replace(/ \| undefined$/, ""),
        isOptional: "questionToken" in member && member.questionToken !== undefined,
        fallback: defaultOf(member),
        about: aboutOf(member),
      },
    ];
  });
}

/** On one line, without `readonly`. */
const sourceOf = (node: ts.Node | undefined): string =>
  (node?.getText() ?? "")
    .replaceAll(/\/\*\*.*?\*\//gs, "")
    .replaceAll(/\breadonly /g, "")
    .replaceAll(/\s+/g, " ")
    .replaceAll(/([(<]) | (?=[)>])/g, "$1")
    .trim();

function aboutOf(declaration: ts.Node): string {
  const documented = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
  return ts
    .getJSDocCommentsAndTags(documented)
    .filter(ts.isJSDoc)
    .map(({ comment }) => textOf(ts.getTextOfJSDocComment(comment) ?? ""))
    .join(" ");
}

function defaultOf(declaration: ts.Node): string | null {
  const tag = ts.getJSDocTags(declaration).find(({ tagName }) => tagName.text === "default");
  return tag === undefined ? null : textOf(ts.getTextOfJSDocComment(tag.comment) ?? "");
}

/** A comment on one line, without the asterisks. */
const textOf = (comment: string): string =>
  comment
    .replaceAll(/^\s*\* ?/gm, "")
    .replaceAll(/\s+/g, " ")
    .trim();
