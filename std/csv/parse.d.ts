export interface ParseOptions {
  separator?: string;
  comment?: string;
  trimLeadingSpace?: boolean;
  lazyQuotes?: boolean;
  fieldsPerRecord?: number;
}
export declare function parse(input: string, options?: ParseOptions): string[][];
