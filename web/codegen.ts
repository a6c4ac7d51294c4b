import type { CodegenConfig } from '@graphql-codegen/cli';

const config: CodegenConfig = {
  schema: '../graph/*.graphqls',
  documents: 'src/app/**/*.graphql',
  ignoreNoDocuments: true,
  generates: {
    './src/gql/': {
      preset: 'client',
      presetConfig: { fragmentMasking: false },
      config: {
        useTypeImports: true,
        enumsAsTypes: true,
        strictScalars: true,
        // A Long is a number while that is exact, else a decimal string; only toLong() of api/long.ts may read one.
        scalars: { Long: 'number | string', Time: 'string', Date: 'string', Decimal: 'string', JSON: 'unknown' },
      },
    },
  },
};

export default config;
