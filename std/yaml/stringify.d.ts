export interface StringifyOptions {
  indent?: number;
  arrayIndent?: boolean;
  skipInvalid?: boolean;
  flowLevel?: number;
  sortKeys?: boolean | ((a: string, b: string) => number);
  lineWidth?: number;
  useAnchors?: boolean;
  compatMode?: boolean;
  condenseFlow?: boolean;
}
export declare function stringify(data: unknown, options?: StringifyOptions): string;
